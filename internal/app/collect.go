package app

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"time"
)

// setGCPercent sets how much garbage there may be in percent of what lives, unless the environment says what to do, as it may for any Go
// program.
func setGCPercent(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// memoryLimit is what the collector keeps the process below where GOMEMLIMIT is a bare number of bytes. A Deployment writes it so from
// the container's limit: a tenth of it is left for what the collector does not count, so that it works before the kernel kills. A limit
// with a unit was chosen by somebody and stays.
func memoryLimit(variable string) (int64, bool) {
	limit, err := strconv.ParseInt(variable, 10, 64)
	if err != nil || limit <= 0 {
		return 0, false
	}
	return limit - limit/10, true
}

const (
	// startPercent is how much garbage there may be in percent of what lives until everything is compiled: a start makes the most of it, and
	// its peak is what a container must have room for.
	startPercent = 50
	// garbage is how much there may be from then on, in bytes, whatever lives. With a share of what lives the collector would run all the
	// time where that is little: six times a second under a full load of events, for a fifth of the processor's time.
	garbage = 64 << 20
	// What lives may grow before it is measured again, so that little of it does not stand for any percentage, and much not for none.
	minPercent, maxPercent = 15, 400
	// boundInterval is how often the garbage is bounded anew by what lives.
	boundInterval = time.Second
	// trimInterval is how often a process is looked at that may be quiet: one that allocates less than what garbage there may be in that
	// time. It is left with so much garbage then.
	trimInterval = 30 * time.Second
	trimmed      = 16 << 20
)

// trims are the pauses after which a start's memory is looked at again: statuses are written then and Secrets watched, and the
// goroutines of the watches give their stacks back when the collector has seen them idle.
var trims = []time.Duration{0, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute}

// trim gives the memory of the start back to the system: the lists of all objects, as they were read, are garbage when they are
// compiled, and would otherwise count for as long as the collector has no reason to run. From then on it gives back what a burst has left.
func (a *App) trim(ctx context.Context) error {
	select {
	case <-a.reconcile.Complete():
	case <-ctx.Done():
		return nil
	}
	for _, pause := range trims {
		select {
		case <-time.After(pause):
			debug.FreeOSMemory()
		case <-ctx.Done():
			return nil
		}
	}
	tick := time.NewTicker(trimInterval)
	defer tick.Stop()
	for before := readHeap(); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		now := readHeap()
		if now.worthTrimming(before) {
			debug.FreeOSMemory()
		}
		before = now
	}
}

// boundGarbage has the collector run when there is as much garbage as there may be.
func (a *App) boundGarbage(ctx context.Context) error {
	select {
	case <-a.reconcile.Complete():
	case <-ctx.Done():
		return nil
	}
	tick := time.NewTicker(boundInterval)
	defer tick.Stop()
	for set := 0; ; {
		// To set it stops all goroutines for a moment, so it is left alone where it would hardly change.
		if percent := percentFor(readHeap().live); percent*10 < set*9 || percent*9 > set*10 {
			setGCPercent(percent)
			set = percent
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// percentFor is the garbage that there may be beside so many bytes, in percent of them.
func percentFor(live uint64) int {
	return int(max(minPercent, min(maxPercent, garbage*100/max(live, 1))))
}

// heap is a reading of the runtime, in bytes: what was allocated since the start, what lived when the collector ran last, and what is there.
type heap struct{ allocated, live, there uint64 }

func readHeap() heap {
	read := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(read)
	return heap{allocated: read[0].Value.Uint64(), live: read[1].Value.Uint64(), there: read[2].Value.Uint64()}
}

// worthTrimming reports whether a process is quiet and has more than a little garbage.
func (h heap) worthTrimming(before heap) bool {
	return h.allocated-before.allocated < garbage && h.there > h.live+trimmed
}
