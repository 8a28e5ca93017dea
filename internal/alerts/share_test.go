package alerts

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// T6: an Alert is edited before each event, so that each delivery is for another Provider that does not exist. Fails when excess leaves each
// Provider a delivery, however many Providers there are; or when it counts what is to be given up already, so that too much is.
func TestT6DeliveriesForMoreProvidersThanTheQuotaAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const quota, providers = 40, 400
		w, good := newWorld(t), &sink{}
		w.quota = quota
		w.destination("good", good)
		for i := range providers {
			w.bus.publish(w.unbound(fmt.Sprint("missing", i), "app"))
		}
		_, stop := w.run()
		wait(5 * time.Minute)
		w.bus.publish(w.delivery("good", "app"))
		wait(time.Second)
		stop()
		if n := w.bus.left(); n != quota {
			t.Errorf("%d deliveries wait, the quota is %d", n, quota)
		}
		for _, letter := range w.bus.deadLetters() {
			if letter.label != event.LabelQuota {
				t.Errorf("a delivery was given up as %s", letter.label)
			}
		}
		if n := good.count(); n != 1 {
			t.Errorf("%d of 1 arrived at the healthy Provider", n)
		}
	})
}

// deadUnreadable are dead letters that the bus does not count.
type deadUnreadable struct{ Bus }

func (deadUnreadable) DeadProviders(context.Context, int) (map[event.ProviderKey]int, error) {
	return nil, errors.New("no answer")
}

// Fails when the deliveries of a shard that could not be taken over stay in the count of their namespace.
func TestAFailedTakeoverLeavesNothingInTheShares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		waiting := w.delivery("chat", "app")
		waiting.Reschedules = 1
		w.bus.mu.Lock()
		w.bus.add(waiting, time.Now().Add(time.Hour))
		w.bus.mu.Unlock()
		d := w.deliverer(w.bus.session())
		d.Bus = deadUnreadable{d.Bus}
		if err := d.serve(t.Context(), 0, nil); err == nil {
			t.Error("the shard was served")
		}
		if s := d.shares.of["team-a"]; s != nil {
			t.Errorf("%d deliveries of a shard that is not served count", s.deliveries.Load())
		}
	})
}

// T6: a queue at its quota gives up its oldest delivery for each that comes. Fails when it looks at the others for that: all Providers of the
// shard would wait meanwhile.
func TestT6GivingUpADeliveryCostsNothingForTheOthersOfItsQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newShard(w.deliverer(w.bus.session()), 0)
	now := time.Now()
	q := s.queue("team-a", "down", now)
	for i := range 10_000 {
		d := w.delivery("down", fmt.Sprint("app", i))
		switch i % 3 {
		case 0:
			d.Known = false
		case 1:
			d.Event.Severity = event.SeverityError
		}
		l, e := q.place(event.ObjectKey(d.Object()), d.Order, d.ID, now)
		q.learn(l, e, &d)
		e.onSchedule = true
		q.refresh(l)
	}
	for first, match := range map[uint64]func(*entry) bool{
		1: func(*entry) bool { return true },
		2: func(e *entry) bool { return e.rank == rankError },
		3: func(e *entry) bool { return e.rank == rankInfo },
	} {
		looks := 0
		l := q.oldestScheduled(func(e *entry) bool { looks++; return match(e) })
		if l == nil || l.next.order != first {
			t.Errorf("the oldest is %+v, want the one of %d", l, first)
		}
		if looks > len(q.recallable) {
			t.Errorf("%d of 10,000 deliveries are looked at to give up one", looks)
		}
	}
	if l := q.recallable.first(); l == nil || l.next.order != 2 {
		t.Errorf("%+v is recalled first, want the oldest error", l)
	}
}

// T6: the reads of deliveries that are to be given up fail for some minutes. Fails when one that is read again counts as given up twice: then
// ever more deliveries wait beyond the quota.
func TestT6FailedReadsOfWhatIsGivenUpRaiseNoQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.quota = 40
		w.destination("chat", sendFunc(func(context.Context, provider.Notification) error {
			return failure(event.Retry, provider.LabelServer)
		}))
		var away atomic.Bool
		w.bus.faults = func(op string) error {
			if op == "recall" && away.Load() {
				return errCut
			}
			return nil
		}
		_, stop := w.run()
		away.Store(true)
		for i := range 2 * w.quota {
			w.bus.publish(w.delivery("chat", fmt.Sprint("app", i)))
		}
		wait(5 * time.Minute)
		away.Store(false)
		for i := range 2 * w.quota {
			w.bus.publish(w.delivery("chat", fmt.Sprint("other", i)))
		}
		wait(10 * time.Minute)
		if n := w.bus.left(); n > w.quota {
			t.Errorf("%d wait, the quota is %d", n, w.quota)
		}
		stop()
	})
}
