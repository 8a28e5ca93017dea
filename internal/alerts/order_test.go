package alerts

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// FuzzOneObjectsEventsArriveInOrder is E4, with E2 and E3 beside it: with a destination that fails by turns, a bus that fails now and
// then, kills and drains. Every delivery is accepted once or more, in order per object, and twice only if there was a kill, a drain or a
// failing bus.
//
// Fails when next ignores the line's head, when concluded clears the line before the outcome is stored, when expect does nothing, or when
// join acknowledges a twin instead of keeping it.
func FuzzOneObjectsEventsArriveInOrder(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { playOrder(t, seed) })
	})
}

func playOrder(t *testing.T, seed uint64) {
	const objects, deliveries = 6, 400
	rng := rand.New(rand.NewPCG(seed, 7))
	w := newWorld(t)
	m := newMoody(t, seed)
	w.bus.rough = newRough(seed, true)
	calm := seed%5 == 0 // some runs have only the destination's trouble
	var cured atomic.Bool
	faults := rand.New(rand.NewPCG(seed, 9))
	w.bus.faults = func(op string) error {
		if !calm && !cured.Load() && faults.IntN(20) == 0 {
			return errors.New("bus hiccup")
		}
		return nil
	}
	session := 0
	serve := func() {
		d := &Destination{UID: "p-chat", Type: "generic", Sender: m.sender(session)}
		if seed%4 == 3 { // slower than the deliveries arrive, so that most wait on the schedule
			d.Limit, d.Burst = 0.4, 3
		}
		w.destinations.Put("team-a", "chat", d)
	}
	serve()
	s, stop := w.run()
	for range deliveries {
		pass(time.Duration(rng.IntN(1500)) * time.Millisecond)
		d := w.delivery("chat", fmt.Sprint("app", rng.IntN(objects)))
		switch d.Order % 5 {
		case 0, 3:
			d.Event.Severity = event.SeverityError
		case 1:
			d.Known = seed%2 == 0
		}
		m.expect(d, rng.IntN(40) == 0)
		w.bus.publish(d)
		consistent(t, s.dispatcher)
		if !calm && rng.IntN(50) == 0 {
			if rng.IntN(2) == 0 {
				s.kill()
			}
			stopped := stop
			done := make(chan struct{})
			go func() { stopped(); close(done) }()
			if s.cut {
				// The next owner may start at once, while sends of the killed one are still under way.
				session++
				synctest.Wait() // else the killed one could begin a send to the next one's destination
				pass(time.Duration(rng.IntN(3)*rng.IntN(20)) * time.Second)
			} else {
				<-done
			}
			serve()
			s, stop = w.run()
		}
	}
	m.cure()
	cured.Store(true)
	wait(time.Hour)
	stop()
	if !w.bus.empty() {
		t.Errorf("%d deliveries are left on the bus", w.bus.left())
	}
	if calm {
		m.noneTwice()
	}
	m.allInOrder()
}

// TestAPredecessorOnTheScheduleHoldsItsSuccessorsAfterATakeover is E4. Fails when serve does not read the rescheduled deliveries.
func TestAPredecessorOnTheScheduleHoldsItsSuccessorsAfterATakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.destination("chat", dest)
		first, second, other := w.delivery("chat", "app"), w.delivery("chat", "app"), w.delivery("chat", "other")
		first.Attempts, first.Reschedules, first.FirstAttempt = 3, 3, time.Now()
		w.bus.mu.Lock()
		w.bus.add(first, time.Now().Add(40*time.Second))
		w.bus.mu.Unlock()
		w.bus.publish(second, other)
		_, stop := w.run()
		wait(30 * time.Second)
		if got := dest.ids(); len(got) != 1 || got[0] != "d3" {
			t.Errorf("sent %v before the predecessor came back", got)
		}
		wait(time.Minute)
		if got := dest.ids(); len(got) != 3 || got[1] != "d1" || got[2] != "d2" {
			t.Errorf("sent %v", got)
		}
		stop()
	})
}

// TestE4APredecessorBehindItsSuccessorAndABacklogGoesFirst is E4 for a delivery whose schedule fired while the shard had no owner. It is
// in the stream behind its successor and behind far more messages than a shard keeps, on a bus that takes minutes to hand them all out.
// Fails when Backlog does not list the deliveries that have come off the schedule, or when expect ignores them.
func TestE4APredecessorBehindItsSuccessorAndABacklogGoesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.destination("chat", dest)
		w.bus.pause = 30 * time.Millisecond
		first, second, other := w.delivery("chat", "app"), w.delivery("chat", "app"), w.delivery("chat", "other")
		w.bus.publish(second, other)
		for i := range maxHeld + 1000 {
			w.bus.publish(w.delivery("chat", fmt.Sprint("app", i)))
		}
		first.Reschedules = 1
		w.bus.mu.Lock()
		w.bus.add(first, time.Now().Add(time.Second))
		w.bus.mu.Unlock()
		wait(2 * time.Second)
		_, stop := w.run()
		wait(10 * time.Minute)
		stop()
		got := dest.ids()
		if len(got) != maxHeld+1003 || slices.Index(got, "d1") > slices.Index(got, "d2") {
			t.Errorf("%d sent, the second of an object's events as number %d, the first as number %d",
				len(got), slices.Index(got, "d2"), slices.Index(got, "d1"))
		}
		if slices.Index(got, "d3") > 1 {
			t.Errorf("an object without a predecessor waited for %d others", slices.Index(got, "d3"))
		}
	})
}

// TestE4WhatWasRescheduledWaitsForWhatComesInOrder is E4: the last owner had an object's first delivery in memory, and had rescheduled
// the second. Fails when next ignores awaits.
func TestE4WhatWasRescheduledWaitsForWhatComesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.destination("chat", dest)
		w.bus.pause = 50 * time.Millisecond
		for i := range 50 {
			w.bus.publish(w.delivery("chat", fmt.Sprint("other", i)))
		}
		first, second := w.delivery("chat", "app"), w.delivery("chat", "app")
		w.bus.publish(first)
		second.Reschedules = 1
		w.bus.mu.Lock()
		w.bus.add(second, second.Routed.Add(DefaultMaxAge))
		w.bus.mu.Unlock()
		_, stop := w.run()
		wait(time.Minute)
		stop()
		if got := dest.ids(); len(got) != 52 || slices.Index(got, first.ID) > slices.Index(got, second.ID) {
			t.Errorf("%d sent, the first of an object's as number %d, the second as number %d",
				len(got), slices.Index(got, first.ID), slices.Index(got, second.ID))
		}
	})
}

// TestAfterATakeoverNothingIsWaitedForLongerThanItTakes fails when a takeover waits for deliveries that arrive in order anyway.
func TestAfterATakeoverNothingIsWaitedForLongerThanItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.destination("chat", dest)
		w.bus.publish(w.delivery("chat", "app"), w.delivery("chat", "other"))
		_, stop := w.run()
		wait(100 * time.Millisecond)
		stop()
		if n := dest.count(); n != 2 {
			t.Errorf("%d sent at once", n)
		}
	})
}

// TestAPredecessorThatEndedElsewhereIsNotWaitedForForever fails when place never forgets a missing delivery.
func TestAPredecessorThatEndedElsewhereIsNotWaitedForForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.destination("chat", dest)
		first, second := w.delivery("chat", "app"), w.delivery("chat", "app")
		first.Attempts, first.Reschedules, first.FirstAttempt = 3, 3, time.Now()
		w.bus.mu.Lock()
		w.bus.add(first, time.Now().Add(40*time.Second))
		w.bus.mu.Unlock()
		_, stop := w.run()
		wait(time.Second)
		w.bus.publish(second)
		wait(30 * time.Second)
		if n := dest.count(); n != 0 {
			t.Fatalf("%d sent before the predecessor", n)
		}
		w.bus.mu.Lock()
		w.bus.unschedule(w.bus.scheduled[first.ID]) // as a former owner of the shard does when it acknowledges during its drain
		w.bus.mu.Unlock()
		wait(5 * time.Minute)
		stop()
		if got := dest.ids(); len(got) != 1 || got[0] != "d2" {
			t.Errorf("sent %v", got)
		}
	})
}

// TestASuccessorIsNotKeptInMemoryForALongWait fails when putBackBlocked puts nothing back.
func TestASuccessorIsNotKeptInMemoryForALongWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.destination("chat", dest)
		first := w.delivery("chat", "app")
		first.Attempts, first.Reschedules, first.FirstAttempt = 9, 9, time.Now()
		w.bus.mu.Lock()
		w.bus.add(first, time.Now().Add(10*time.Minute))
		w.bus.mu.Unlock()
		_, stop := w.run()
		wait(time.Second)
		w.bus.publish(w.delivery("chat", "app"))
		held := 0
		for range 60 {
			wait(time.Second)
			held += w.bus.unscheduled()
		}
		if held > 45 {
			t.Errorf("held for %d of 60 seconds", held)
		}
		wait(12 * time.Minute)
		stop()
		if got := dest.ids(); len(got) != 2 || got[0] != "d1" {
			t.Errorf("sent %v", got)
		}
	})
}

// TestSuccessorsWaitAsLongAsAnOutcomeIsNotStored fails when attempted frees the line.
func TestSuccessorsWaitAsLongAsAnOutcomeIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.destination("chat", dest)
		w.bus.faults = func(op string) error {
			if op == "sent" {
				return errors.New("no answer")
			}
			return nil
		}
		w.bus.publish(w.delivery("chat", "app"), w.delivery("chat", "app"))
		_, stop := w.run()
		wait(time.Minute)
		if n := dest.count(); n != 1 {
			t.Errorf("%d sent", n)
		}
		w.bus.mu.Lock()
		w.bus.faults = func(string) error { return nil }
		w.bus.mu.Unlock()
		wait(5 * time.Second)
		stop()
		if n := dest.count(); n != 2 {
			t.Errorf("%d sent", n)
		}
	})
}
