package subscribe

import (
	"testing"
	"testing/synctest"
	"time"
)

// Invariant T4: the triggers of two Receivers for one target have no room on the bus. Fails when that of the one ends with the other Receiver,
// which was triggered last, or is not known to the next worker.
func TestT4AHeldTriggerOutlivesAnotherReceiverOfItsTarget(t *testing.T) {
	for name, restarted := range map[string]bool{"one worker": false, "the next worker": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stays, goes := targeting("team/stays", 1), targeting("team/goes", 1)
				stays.Sources[0].Name, goes.Sources[0].Name = "first", "second"
				goes.Targets[0].Key = stays.Targets[0].Key
				s := newStage(t, stays, goes)
				s.exceed("team")
				stop := s.run()
				s.must("ImagePolicy/first")
				s.must("ImagePolicy/second")
				if restarted {
					stop()
				}
				s.table.Delete("team", "goes")
				if restarted {
					stop = s.run()
				}
				defer stop()
				s.wait(5 * time.Second)
				s.exceed("")
				if n := s.wait(5 * time.Second); n != 1 {
					t.Errorf("%d are stored once there is room, want 1", n)
				}
			})
		})
	}
}
