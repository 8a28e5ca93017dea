package app

import (
	"testing"
	"testing/synctest"
	"time"
)

func pass(d time.Duration) { <-time.After(d) }

// Fails when a start is over before every shard is served, or waits for one that is not served for longer than takeUpWait. It also fails
// when a condition that was true becomes false.
func TestAStartWaitsForTheShards(t *testing.T) {
	for name, c := range map[string]struct {
		served time.Duration // after the compilation
		ready  time.Duration
	}{
		"served soon": {takeUpWait / 2, takeUpWait / 2},
		"served late": {2 * takeUpWait, takeUpWait},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				compiled, began := make(chan struct{}), time.Now()
				s := &takeUp{compiled: compiled, serves: func() bool { return time.Since(began) >= c.served }}
				if s.test() == nil {
					t.Fatal("ready before everything is compiled")
				}
				pass(2 * takeUpWait)
				close(compiled)
				for began = time.Now(); s.test() != nil; {
					pass(takeUpWait / 100)
				}
				if took := time.Since(began); took != c.ready {
					t.Errorf("ready after %s, want %s", took, c.ready)
				}
				c.served = time.Hour
				if err := s.test(); err != nil {
					t.Errorf("no longer ready: %v", err)
				}
			})
		})
	}
}
