package alerts

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// slowly returns a Sender that takes a time, and fails its first sends.
func slowly(to *sink, took time.Duration, failures int) Sender {
	return sendFunc(func(ctx context.Context, n provider.Notification) error {
		select {
		case <-time.After(took):
		case <-ctx.Done():
			return ctx.Err()
		}
		if failures--; failures >= 0 {
			return event.NewError(event.Retry, provider.LabelServer, "down", nil)
		}
		return to.Send(ctx, n)
	})
}

// E5: fails when an event stays open as long as its destination takes, so that all younger events would be handled again after a crash,
// or when the copy on the schedule is left there.
func TestE5AnEventIsNotHeldAsLongAsItsDestinationTakes(t *testing.T) {
	for name, failures := range map[string]int{"the send succeeds": 0, "the send fails and is tried again": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, dest := newWorld(t), &sink{}
				w.destination("chat", slowly(dest, 2*time.Minute, failures))
				w.bus.publish(w.delivery("chat", "app"), w.delivery("chat", "app"))
				_, stop := w.run()
				wait(spillAfter + tickEvery)
				if n := w.bus.unscheduled(); n != 0 || w.bus.left() != 2 {
					t.Errorf("%d events are held, %d messages are left", n, w.bus.left())
				}
				wait(20 * time.Minute)
				stop()
				if diff := cmp.Diff([]string{"d1", "d2"}, dest.ids()); diff != "" || !w.bus.empty() {
					t.Errorf("%d left: %s", w.bus.left(), diff)
				}
			})
		})
	}
}

// E3: the bus does not accept the copy of a delivery that is being sent until the send has ended. Fails when the outcome is stored before
// the copy is there: the copy is then left, and sent again.
func TestE3ACopyThatComesLateIsTakenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.destination("chat", slowly(dest, time.Minute, 0))
		began := time.Now()
		w.bus.faults = func(op string) error {
			if op == "reschedule" && time.Since(began) < 90*time.Second {
				return errCut
			}
			return nil
		}
		w.bus.publish(w.delivery("chat", "app"))
		_, stop := w.run()
		wait(10 * time.Minute)
		stop()
		if diff := cmp.Diff([]string{"d1"}, dest.ids()); diff != "" || !w.bus.empty() {
			t.Errorf("%d left: %s", w.bus.left(), diff)
		}
	})
}

// E2 and E4: fails when the copy of a delivery that was being sent at a crash is not found again, or is sent after its successor.
func TestE2SendsUnderWayAtACrashAreRepeatedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.destination("chat", slowly(&sink{}, 4*time.Minute, 0))
		w.bus.publish(w.delivery("chat", "app"), w.delivery("chat", "app"))
		s, stop := w.run()
		wait(time.Minute)
		s.kill()
		stop()
		w.destination("chat", dest)
		w.bus.publish(w.delivery("chat", "app"))
		_, stop = w.run()
		wait(time.Minute)
		stop()
		if diff := cmp.Diff([]string{"d1", "d2", "d3"}, dest.ids()); diff != "" || !w.bus.empty() {
			t.Errorf("%d left: %s", w.bus.left(), diff)
		}
	})
}

// E5: the bus asks for it when too many events are open. Fails when younger deliveries are put on the schedule too, or older ones are
// not.
func TestE5WhatHoldsTheOldestEventsIsPutAwayWhenTheBusAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.destination("chat", slowly(&sink{}, time.Hour, 0))
		for range 6 {
			w.bus.publish(w.delivery("chat", "app"))
		}
		s, stop := w.run()
		wait(time.Second)
		s.dispatcher.Spill(t.Context(), 4)
		wait(time.Second)
		if n := w.bus.unscheduled(); n != 2 || w.bus.left() != 6 {
			t.Errorf("%d events are held, %d messages are left", n, w.bus.left())
		}
		stop()
	})
}

// E3: after a crash an open event is handed out again although its delivery was put on the schedule. Fails when the delivery is then sent
// from both, or when the event stays open for as long as the delivery waits.
func TestE3ADeliveryOnTheScheduleIsNotTakenFromItsEventAsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.destination("chat", dest)
		d := w.delivery("chat", "app")
		w.bus.publish(d)
		d.Reschedules, d.Attempts, d.FirstAttempt = 1, 1, time.Now()
		w.bus.mu.Lock()
		w.bus.add(d, time.Now().Add(time.Minute))
		w.bus.mu.Unlock()
		_, stop := w.run()
		wait(time.Second)
		if n := w.bus.unscheduled(); n != 0 || dest.count() != 0 {
			t.Errorf("%d events are held, %d were sent", n, dest.count())
		}
		wait(2 * time.Minute)
		stop()
		if diff := cmp.Diff([]string{"d1"}, dest.ids()); diff != "" || !w.bus.empty() {
			t.Errorf("%d left: %s", w.bus.left(), diff)
		}
	})
}

// Fails when the bytes of a namespace's waiting deliveries are not bounded, or when Providers other than the largest give up deliveries
// for them.
func TestE5LargeDeliveriesAreBoundedByTheirBytes(t *testing.T) {
	s := &share{}
	newQueue(event.ProviderKey{Namespace: "team-a", Provider: "chat"}, s, time.Now()).count(10, 0, 1000)
	newQueue(event.ProviderKey{Namespace: "team-a", Provider: "other"}, s, time.Now()).count(1, 0, 1)
	if excess, _ := s.excess(10, math.MaxInt, 2000); excess != 0 {
		t.Errorf("%d over a bound that is not reached", excess)
	}
	excess, _ := s.excess(10, math.MaxInt, 500)
	if left := (10 - excess) * 100; left > 500 || left < 300 {
		t.Errorf("%d of 1,000 KiB are left, 500 are the bound", left)
	}
	if excess, _ := s.excess(1, math.MaxInt, 500); excess != 0 {
		t.Errorf("the other Provider gives up %d", excess)
	}
}
