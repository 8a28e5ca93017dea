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

// Fails when the time of a play stops between the two requests of one status: the state between them then lasts as long as a restart.
func TestTheClockOfAPlayDividesNoTwoRequestsOfOneStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		c.start()
		began := time.Now()
		go func() {
			if err := pause(t.Context(), 1003*time.Millisecond); err != nil {
				t.Error(err)
			}
			if err := c.atMost(0, func() error { return pause(t.Context(), 20*time.Second) }); err != nil {
				t.Error(err)
			}
		}()
		status := &player{recording: &recording{steps: []step{{T: 1000}, {T: 1006}}}, clock: c}
		if err := status.play(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 1100*time.Millisecond {
			t.Errorf("the status was written %s after the start of the play", took)
		}
		synctest.Wait()
		if err := c.wait(t.Context(), 1100*time.Millisecond); err != nil { // until the clock goes on
			t.Error(err)
		}
	})
}
