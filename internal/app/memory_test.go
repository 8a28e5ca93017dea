package app

import (
	"context"
	"runtime/debug"
	"testing"
	"time"
)

// Fails when garbage grows with what lives, or the collector runs all the time.
func TestGarbageIsBoundedThoughWhatLivesIsNot(t *testing.T) {
	const mib = 1 << 20
	for live, want := range map[uint64]int{0: 100, 20 * mib: 100, 40 * mib: 100, 80 * mib: 50, 100 * mib: 40, 160 * mib: 25, 4096 * mib: 25} {
		if got := gcPercent(live); got != want {
			t.Errorf("%d MiB live: %d %%, want %d", live/mib, got, want)
		}
	}
}

// Fails when what the process holds is never looked at.
func TestTheCollectorIsToldWhenTheStartIsComplete(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(73) // no value of gcPercent for a process as small as this one
	defer debug.SetGCPercent(before)
	ctx, cancel := context.WithCancel(t.Context())
	complete, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- tendMemory(ctx, complete) }()
	close(complete)
	for deadline := time.Now().Add(10 * time.Second); ; {
		now := debug.SetGCPercent(73)
		if now == 100 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("still %d %%", now)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
