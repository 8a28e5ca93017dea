package app

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"time"
)

// setGCPercent sets how much garbage there may be in percent of the live heap. GOGC in the environment overrides it, as for any Go
// program.
func setGCPercent(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// memoryLimit returns the memory limit for the collector if GOMEMLIMIT is a bare number of bytes, as a Deployment writes it from the
// container's limit. A tenth of it is left for memory that the collector does not count, so that it collects before the kernel kills the
// process. A limit with a unit was chosen by an administrator and stays.
func memoryLimit(variable string) (int64, bool) {
	limit, err := strconv.ParseInt(variable, 10, 64)
	if err != nil || limit <= 0 {
		return 0, false
	}
	return limit - limit/10, true
}

const (
	// startPercent is the garbage in percent of the live heap until everything is compiled. A start makes the most garbage, and its peak
	// determines the memory that a container needs.
	startPercent = 50
	// garbage is the bound on garbage from then on, in bytes, for any live heap. With a share of a small live heap the collector would run
	// all the time: six times a second under a full load of events, for a fifth of the processor's time.
	garbage = 64 << 20
	// minPercent and maxPercent bound the percentage. The live heap may grow before it is measured again: a tiny one must not permit any
	// percentage, nor a large one none.
	minPercent, maxPercent = 15, 400
	// boundInterval is how often the percentage is adapted to the live heap.
	boundInterval = time.Second
	// trimInterval is how often a process is checked for being quiet. A quiet process allocates less than garbage in that time. It is
	// trimmed if its garbage is more than trimmed, in bytes.
	trimInterval = 30 * time.Second
	trimmed      = 16 << 20
)

// trims are the pauses after which the memory of a start is trimmed again. In that time statuses are written and Secrets watched, and the
// goroutines of the watches return their stacks when the collector has seen them idle.
var trims = []time.Duration{0, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute}

// trim returns the memory of the start to the system. The lists of all objects, as they were read, are garbage when they are compiled,
// and would otherwise count until the collector has a reason to run. From then on trim returns the memory that a burst has left.
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

// boundGarbage has the collector run when garbage reaches its bound.
func (a *App) boundGarbage(ctx context.Context) error {
	select {
	case <-a.reconcile.Complete():
	case <-ctx.Done():
		return nil
	}
	tick := time.NewTicker(boundInterval)
	defer tick.Stop()
	for set := 0; ; {
		// Setting it stops all goroutines for a moment, so it is left alone where it would hardly change.
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

// percentFor returns the bound on garbage beside so many live bytes, in percent of them.
func percentFor(live uint64) int {
	return int(max(minPercent, min(maxPercent, garbage*100/max(live, 1))))
}

// heap is a reading of the runtime, in bytes: allocated since the start, live at the last collection, and present now, garbage included.
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
