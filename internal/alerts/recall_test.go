package alerts

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// T6: what waits of one namespace may be larger than the memory, and a new worker reads all of it to learn its Alerts, in the first minute.
// Fails when what is only looked at is kept, when the Providers of a namespace each recall as many as have room in memory by their number,
// or when what has lost its Alert is in memory together.
func TestT6ANewWorkerReadsLargeWaitingDeliveriesAFewAtATime(t *testing.T) {
	const many, size = 4 * manyLetters, largeLetter / 2
	for name, tc := range map[string]struct {
		providers int
		orphaned  bool
	}{
		"of one Provider":                {providers: 1},
		"of many Providers":              {providers: manyLetters},
		"of one Provider, without Alert": {providers: 1, orphaned: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				for i := range many {
					w.bus.publish(w.unbound(fmt.Sprint("missing-", i%tc.providers), fmt.Sprint("app", i)))
				}
				_, stop := w.run()
				wait(time.Minute)
				stop()
				if tc.orphaned {
					w.alerts.Delete("team-a/alert")
				}
				w.bus.large.begin(size)
				d, _, stop := w.start()
				wait(30 * time.Minute)
				w.bus.large.keptAtMost(t, 2*namespaceHeldBytes)
				if dead := len(w.bus.deadLetters()); dead != 0 && !tc.orphaned || dead != many && tc.orphaned {
					t.Errorf("%d of %d were given up", dead, many)
				}
				if a := w.notes.ledger.Get(kindAlert, "team-a", "alert"); !tc.orphaned && (a.Pending != many || !a.Counted) {
					t.Errorf("%d wait for the Alert (counted %t)", a.Pending, a.Counted)
				}
				stop()
				if n := d.heldBytes.Load(); n != 0 {
					t.Errorf("%d bytes are counted when nothing is in memory", n)
				}
			})
		})
	}
}

// A delivery that is being read can be handed out, end and be replayed before the answer comes. Fails when the answer is taken for the place
// that it has now: its Alert would have one delivery too few, and the namespace one whose Alert is never known.
func TestAnAnswerAboutAFormerPlaceOfADeliveryIsNotTaken(t *testing.T) {
	w := newWorld(t)
	s, now := newShard(w.deliverer(w.bus.session()), 0), time.Now()
	q := s.queue("team-a", "chat", now)
	d, behind := w.delivery("chat", "app"), w.delivery("chat", "app")
	object := event.ObjectKey(d.Object())
	q.place(object, behind.Order, behind.ID, now)
	l, former := q.place(object, d.Order, d.ID, now)
	q.learn(l, former, &d)
	former.onSchedule = true
	place := q.mark(l, former, false)
	q.forget(l, former, now)
	_, is := q.place(object, d.Order, d.ID, now)
	found := event.Recalled{At: now.Add(time.Hour), Held: event.Message[event.Delivery]{Value: d}}
	s.recalled(t.Context(), q, place, &found, nil)
	if former.item != nil || is.item != nil || len(s.items) != 0 {
		t.Error("it is in memory")
	}
	if pending := former.owner.pending; pending != 0 || q.unlearned != 2 || q.kib != 0 {
		t.Errorf("%d wait for the Alert, of %d it is not known, they have %d KiB", pending, q.unlearned, q.kib)
	}
}

// slowReads is a schedule off which it takes a second to read a delivery. It counts them.
type slowReads struct {
	Bus
	n *atomic.Int64
}

func (s slowReads) Recall(ctx context.Context, shard int, p event.Scheduled) (event.Recalled, error) {
	s.n.Add(1)
	pass(time.Second)
	return s.Bus.Recall(ctx, shard, p)
}

// A new worker reads all that waits. Fails when a drain meanwhile waits until the rest of it is read: the next worker could not begin.
func TestADrainReadsNothingMoreOffTheSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const many = 100
		for i := range many {
			w.bus.publish(w.unbound("missing", fmt.Sprint("app", i)))
		}
		_, stop := w.run()
		wait(time.Minute)
		stop()
		var reads atomic.Int64
		_, _, stop = w.startWith(func(d *Deliverer, s *fakeSession) { d.Bus = slowReads{s, &reads} })
		for reads.Load() < 2*badDepth { // by the sweep, which looks at all
			wait(time.Second / 2)
		}
		began := time.Now()
		stop()
		if took, n := time.Since(began), reads.Load(); took > 2*time.Second || n == many {
			t.Errorf("the drain took %s, and %d of %d were read", took, n, many)
		}
	})
}

// E4: fails when deliveries of one urgency return from the schedule in another order than that of their events, over all objects, after some
// of them were read.
func TestE4WhatWaitsReturnsInTheOrderOfItsEvents(t *testing.T) {
	now := time.Now()
	q := newQueue(event.ProviderKey{Namespace: "team-a", Provider: "chat"}, &share{}, now)
	for order, object := range []string{"a", "b", "c", "a", "b", "a", "d", "c"} {
		l, e := q.place(object, uint64(order), fmt.Sprint("d", order), now)
		e.onSchedule = true
		q.refresh(l)
	}
	for want := uint64(0); want < 8; want += 2 {
		taken := q.take(2)
		if len(taken) != 2 || taken[0].entry.order != want || taken[1].entry.order != want+1 {
			t.Fatalf("read %+v, want events %d and %d", taken, want, want+1)
		}
	}
}
