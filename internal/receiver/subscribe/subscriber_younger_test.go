package subscribe

import (
	"testing"
	"testing/synctest"
	"time"
)

// Invariant E1: an event triggers no Receiver that was created after the event was accepted, since the namespace may be another tenant's by
// then. If the clocks disagree, an existing Receiver does not count as younger. Fails when wanting ignores the times.
func TestE1AnEventFromBeforeAReceiverWasMadeDoesNotTriggerIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := time.Now()
		elapse(time.Minute)
		sub := subscription("team/r")
		sub.Created = time.Now()
		s := newStage(t, sub)
		defer s.run()()
		tell := func(accepted time.Time) int {
			r := about("ImagePolicy/app")
			r.Accepted = accepted
			count := s.bus.Count()
			if err := s.tell(r); err != nil {
				t.Fatal(err)
			}
			return s.bus.Count() - count
		}
		if n := tell(before); n != 0 {
			t.Errorf("%d triggers", n)
		}
		if n := tell(time.Now()); n != 1 {
			t.Errorf("%d triggers by what came after", n)
		}
		ahead := *sub
		ahead.Created = time.Now().Add(time.Hour)
		elapse(time.Minute)
		if err := s.table.Put(&ahead); err != nil || tell(time.Now()) != 1 {
			t.Errorf("does not trigger when the API server's clock is ahead: %v", err)
		}
	})
}

// Invariant T4: fails when a worker that begins takes each Receiver for younger than the events that were accepted before it began.
func TestT4AnEventFromBeforeTheWorkerBeganTriggersOldReceivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sub := subscription("team/r")
		sub.Created = time.Now()
		elapse(time.Minute)
		r := about("ImagePolicy/app")
		r.Accepted = time.Now()
		elapse(time.Minute)
		s := newStage(t, sub)
		defer s.run()()
		if err := s.tell(r); err != nil || s.bus.Count() != 1 {
			t.Errorf("%d triggers, %v", s.bus.Count(), err)
		}
	})
}

// Invariant E1: events that were held back trigger no other Receiver that was made under the name. Fails when succeed does not compare the UIDs.
func TestE1WhatWasHeldBackTriggersNoLaterReceiverOfTheName(t *testing.T) {
	for name, restarted := range map[string]bool{"one worker": false, "the next worker": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, subscription("team/r"))
				stop := s.run()
				s.loop("ImagePolicy/app", loopRounds+1)
				if restarted {
					stop()
				}
				later := subscription("team/r")
				later.UID, later.Targets[0].ReceiverUID = "another", "another"
				if err := s.table.Put(later); err != nil {
					t.Fatal(err)
				}
				if restarted {
					stop = s.run()
				}
				defer stop()
				if n := s.wait(time.Hour); n != 0 || s.looping("team/r") {
					t.Errorf("%d triggers, looping %v", n, s.looping("team/r"))
				}
			})
		})
	}
}
