package subscribe

import (
	"testing"
	"testing/synctest"
	"time"
)

// Invariant E1: an event does not trigger a Receiver that was made after it was accepted, since the namespace may be another tenant's by
// then; where the clocks disagree, one that was there is not taken for younger. Fails when wanting does not ask.
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
