package subscribe

import (
	"testing"
	"testing/synctest"
)

// E2: a process that was stopped goes on for some milliseconds after its term. Fails when it then reports the end of a loop, or triggers: the next
// worker holds back what the one after it would no longer know of.
func TestE2AWorkerThatWasStoppedReportsNothingAfterItsTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, subscription("team/r"))
		defer s.run()()
		s.loop("ImagePolicy/app", loopRounds+1)
		s.over.Store(true)
		if n := s.wait(minLoopPause + 2*loopWindow); n != 0 || !s.looping("team/r") {
			t.Errorf("%d triggers after the term, looping %v", n, s.looping("team/r"))
		}
		if err := s.tell(about("ImagePolicy/app")); err == nil {
			t.Error("an event is handled after the term")
		}
	})
}
