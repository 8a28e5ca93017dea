package replay

import (
	"testing"
	"testing/synctest"
	"time"
)

// Fails when the time of a play goes on for longer than the limit while notifier starts, or not at all.
func TestTheClockOfAPlayStopsForASlowRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		c.start()
		slow := func(d time.Duration) {
			if err := c.atMost(3*time.Second, func() error { return pause(t.Context(), d) }); err != nil {
				t.Error(err)
			}
		}
		began := time.Now()
		waited := make(chan time.Duration, 1)
		go func() {
			if err := c.wait(t.Context(), 10*time.Second); err != nil {
				t.Error(err)
			}
			waited <- time.Since(began)
		}()
		slow(2 * time.Second)
		if got := c.now(); got != 2*time.Second {
			t.Errorf("after a start of 2 s the play is at %s", got)
		}
		slow(20 * time.Second)
		if got := c.now(); got != 5*time.Second {
			t.Errorf("after another of 20 s the play is at %s, want 5 s", got)
		}
		if got := <-waited; got != 27*time.Second {
			t.Errorf("10 s of the play took %s, want 27 s", got)
		}
	})
}
