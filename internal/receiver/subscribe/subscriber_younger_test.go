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
