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
	// From then on the bound on garbage is the bytes that the process allocates in collectEvery, between minGarbage and maxGarbage, or
	// minPercent of the live heap if that is more. A process at rest thus keeps little garbage, and its collector still runs seldom. With a
	// share of a small live heap the collector of a process under a full load of events would run all the time: six times a second, for a fifth
	// of the processor's time. With 64 MiB and 10,000 Alerts it took a sixth, and the events of a collection were late.
	collectEvery           = 4 // seconds
	minGarbage, maxGarbage = 8 << 20, 128 << 20
	// minPercent and maxPercent bound the percentage. The live heap may grow before it is measured again: a tiny one must not permit any
	// percentage, nor a large one none.
	minPercent, maxPercent = 10, 400
	// boundInterval is how often the percentage is adapted to the live heap, and to the allocations of the last second. Until then a burst
	// after a rest is collected each time that minGarbage is allocated: some 30 times a second under a full load of events.
	boundInterval   = 250 * time.Millisecond
	boundsPerSecond = int(time.Second / boundInterval)
	// trimInterval is how often a process is checked for being quiet. A quiet process allocates less than quiet in that time, in bytes. It
	// is trimmed if its garbage is more than trimmed.
	trimInterval = 30 * time.Second
	quiet        = 64 << 20
	trimmed      = 16 << 20
	// busy is the bytes that a busy process allocates in a second, or more. It is not trimmed: that would hold up whatever allocates, for
	// 20 to 240 ms as measured, and the collector runs every few seconds in any case.
	busy = 16 << 20
)

// trims are the times after the compilation at which the memory of the start is returned, or later, once the process is not busy. Before the
// first, the waiting deliveries are listed; where they are many, takeUp has returned that memory. Before the others, statuses are written and
// Secrets watched, and the goroutines of the watches return their stacks when the collector has seen them idle.
var trims = []time.Duration{time.Second, 15 * time.Second, 45 * time.Second, 105 * time.Second, 225 * time.Second}

// collect has the collector run when the garbage reaches its bound, and returns memory to the system: that of the start, and later that of
// bursts. The lists of all objects, as they were read, are garbage when they are compiled, and would otherwise count until the collector
// has a reason to run.
//
// One goroutine does both. Otherwise the world, stopped to set the bound, would wait for memory that is being returned: for 240 ms, as
// measured.
func (a *App) collect(ctx context.Context) error {
	select {
	case <-a.reconcile.Complete():
	case <-ctx.Done():
		return nil
	}
	t, g := trimmer{began: time.Now(), left: trims}, garbage{}
	if a.takeUp != nil && a.takeUp.await(ctx) {
		t.left = trims[1:]
	}
	tick := time.NewTicker(boundInterval)
	defer tick.Stop()
	second := newLastSecond(readHeap().allocated)
	for set := 0; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		now := readHeap()
		made := second.made(now.allocated)
		// Setting it stops the world, so it is left alone where it would hardly change.
		if percent := g.percent(made, now.live); percent*10 < set*9 || percent*9 > set*10 {
			setGCPercent(percent)
			set = percent
		}
		if t.due(time.Now(), made, now) {
			debug.FreeOSMemory()
		}
	}
}

// trimmer decides when memory is returned to the system.
type trimmer struct {
	began time.Time
	// left are the trims of the start that are still to come.
	left []time.Duration
	// compared is the reading of trimInterval ago or more.
	compared   heap
	comparedAt time.Time
}

// due reports whether memory is to be returned now. It is called every boundInterval, with the bytes that were allocated in the last second.
func (t *trimmer) due(at time.Time, made uint64, now heap) bool {
	working := made >= busy
	due := true
	switch passed := at.Sub(t.began); {
	case len(t.left) > 0:
		if working || passed < t.left[0] {
			return false
		}
		for len(t.left) > 0 && passed >= t.left[0] {
			t.left = t.left[1:]
		}
	case at.Sub(t.comparedAt) < trimInterval:
		return false
	default:
		due = now.worthTrimming(t.compared)
	}
	t.compared, t.comparedAt = now, at
	return due
}

// lastSecond has the readings of the last second, in bytes allocated since the start.
type lastSecond struct {
	readings [boundsPerSecond]uint64
	oldest   int
}

func newLastSecond(allocated uint64) lastSecond {
	var l lastSecond
	for i := range l.readings {
		l.readings[i] = allocated
	}
	return l
}

// made takes a reading, and returns the bytes that were allocated in the second before it. It is called every boundInterval.
func (l *lastSecond) made(allocated uint64) uint64 {
	made := allocated - l.readings[l.oldest]
	l.readings[l.oldest] = allocated
	l.oldest = (l.oldest + 1) % boundsPerSecond
	return made
}

// garbage decides how much garbage there may be.
type garbage struct {
	// rate is the bytes that the process lately allocated in a second: the most, which counts a sixteenth less each time after that.
	rate uint64
}

// percent returns the bound on garbage in percent of the live bytes. It is called every boundInterval, with the bytes that were allocated
// in the last second.
func (g *garbage) percent(made, live uint64) int {
	g.rate = max(made, g.rate-g.rate/16)
	bound := min(max(g.rate*collectEvery, minGarbage), maxGarbage)
	return int(max(minPercent, min(maxPercent, bound*100/max(live, 1))))
}

// heap is a reading of the runtime, in bytes: allocated since the start, live at the last collection, and present now, garbage and
// free memory included.
type heap struct{ allocated, live, there uint64 }

func readHeap() heap {
	read := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(read)
	return heap{
		allocated: read[0].Value.Uint64(), live: read[1].Value.Uint64(), there: read[2].Value.Uint64() + read[3].Value.Uint64(),
	}
}

// worthTrimming reports whether a process is quiet and has more than a little garbage.
func (h heap) worthTrimming(before heap) bool {
	return h.allocated-before.allocated < quiet && h.there > h.live+trimmed
}
