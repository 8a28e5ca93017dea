package app

import (
	"testing"
	"testing/synctest"
	"time"
)

// Fails when a start is over before every shard is served, waits for one that is not served for longer than takeUpWait, returns memory
// after it is over, or returns it although nothing was listed.
func TestAStartWaitsForTheShards(t *testing.T) {
	for name, c := range map[string]struct {
		served time.Duration // after the compilation
		ready  time.Duration
		trims  int
	}{
		"served at once": {0, 0, 0},
		"served soon":    {takeUpWait / 2, takeUpWait / 2, 1},
		"served late":    {2 * takeUpWait, takeUpWait, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				compiled, began, trims := make(chan struct{}), time.Now(), 0
				s := &takeUp{
					compiled: compiled, serves: func() bool { return time.Since(began) >= c.served }, over: make(chan struct{}),
				}
				s.trim = func() {
					trims++
					if s.test() == nil {
						t.Error("ready before memory is returned")
					}
				}
				before := s.test()
				if before == nil {
					t.Fatal("ready before everything is compiled")
				}
				close(compiled)
				if err := s.test(); err == nil || err.Error() == before.Error() {
					t.Errorf("while the deliveries are listed: %v", err)
				}
				if trimmed := s.await(t.Context()); trimmed != (c.trims > 0) || trims != c.trims {
					t.Errorf("memory was returned %d times (said %t), want %d", trims, trimmed, c.trims)
				}
				if took := time.Since(began); took != c.ready {
					t.Errorf("ready after %s, want %s", took, c.ready)
				}
				if err := s.test(); err != nil {
					t.Errorf("not ready: %v", err)
				}
			})
		})
	}
}
