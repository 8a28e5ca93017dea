package app

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// garbageRoom is how many bytes of garbage there may be, and leastPercent how much in percent of what lives all the same. Most of
	// what lives is the compiled state of all tenants, and grows with their number. By the runtime's own measure garbage would grow
	// with it, though a webhook or an event makes no more of it; the collector would save little time.
	garbageRoom  = 40 << 20
	leastPercent = 25
	// memoryInterval is how often that is looked at.
	memoryInterval = 10 * time.Second
)

// gcPercent is how much garbage there may be, in percent of so many bytes that live.
func gcPercent(live uint64) int {
	const usual = 100
	return int(min(usual, max(leastPercent, garbageRoom*100/max(live, 1))))
}

// tendMemory keeps the process as small as it can be at little cost until ctx ends. When the start is complete it gives the memory
// of the start back to the system: the lists of all objects, as they were read, are garbage when they are compiled, and would
// otherwise count for as long as the collector has no reason to run. GOGC in the environment is left to rule the rest.
func tendMemory(ctx context.Context, complete <-chan struct{}) error {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	percent := 0
	tend := func() {
		if os.Getenv("GOGC") != "" {
			return
		}
		metrics.Read(live)
		if now := gcPercent(live[0].Value.Uint64()); now != percent { // setting it stops the world
			percent = now
			debug.SetGCPercent(now)
		}
	}
	tick := time.NewTicker(memoryInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-complete:
			complete = nil
			debug.FreeOSMemory()
			tend()
		case <-tick.C:
			tend()
		}
	}
}
