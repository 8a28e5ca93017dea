package app

import (
	"bytes"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"
)

// Fails when a start's memory is returned while the process is busy, which holds up its events, when it is not returned once the process
// is no longer busy, or when the returns that were due meanwhile follow each other.
func TestABusyProcessIsTrimmedLater(t *testing.T) {
	began := time.Now()
	trim := trimmer{began: began, left: trims}
	var at []time.Duration
	for passed := boundInterval; passed <= trims[len(trims)-1]; passed += boundInterval {
		made := uint64(1)
		if passed >= 10*time.Second && passed <= 50*time.Second {
			made = busy
		}
		if trim.due(began.Add(passed), made, heap{}) {
			at = append(at, passed)
		}
	}
	want := []time.Duration{trims[0], 50*time.Second + boundInterval, trims[3], trims[4]}
	if !slices.Equal(at, want) {
		t.Errorf("trimmed after %v, want %v", at, want)
	}
}

// Fails when the garbage of a busy process is again a share of the live heap, so that one with a small heap collects all the time.
func TestTheGarbageIsBoundedInBytes(t *testing.T) {
	for live, want := range map[uint64]int{0: 400, 10 << 20: 400, 32 << 20: 400, 64 << 20: 200, 160 << 20: 80, 2 << 30: 10} {
		if got := new(garbage).percent(1<<30, live); got != want {
			t.Errorf("%d MiB: got %d%%, want %d%%", live>>20, got, want)
		}
	}
}

// Fails when a process at rest may have as much garbage as a busy one, or when a busy one that pauses for a second collects all the time.
func TestAProcessAtRestHasLittleGarbage(t *testing.T) {
	const live = 80 << 20
	g := garbage{}
	if got, want := g.percent(1<<20, live), 10; got != want {
		t.Errorf("at rest: %d%%, want %d%%", got, want)
	}
	if got, want := g.percent(8<<20, live), 40; got != want {
		t.Errorf("at some work: %d%%, want %d%%", got, want)
	}
	busy := g.percent(busy, live)
	for range boundsPerSecond - 1 {
		g.percent(0, live)
	}
	if got := g.percent(0, live); got < busy/2 {
		t.Errorf("in a pause of a second: %d%% of %d%%", got, busy)
	}
	for range 10 * boundsPerSecond {
		g.percent(1<<20, live)
	}
	if got, want := g.percent(1<<20, live), 10; got != want {
		t.Errorf("at rest again: %d%%, want %d%%", got, want)
	}
}

// Fails when the bytes of less than a second, or of more, count as those of a second.
func TestTheBytesOfTheLastSecondAreCounted(t *testing.T) {
	l := newLastSecond(100)
	for i := range uint64(2 * boundsPerSecond) {
		got, want := l.made(100+10*(i+1)), 10*min(i+1, uint64(boundsPerSecond))
		if got != want {
			t.Errorf("reading %d: got %d, want %d", i, got, want)
		}
	}
}

// Fails when a burst's memory is kept during idle time, or when a process that is busy or has hardly any garbage is stopped to be trimmed.
func TestAQuietProcessIsTrimmed(t *testing.T) {
	before := heap{allocated: 1 << 30, live: 100 << 20, there: 110 << 20}
	for name, tc := range map[string]struct {
		now  heap
		want bool
	}{
		"quiet after a burst": {heap{1<<30 + 1<<20, 100 << 20, 150 << 20}, true},
		"at work":             {heap{1<<30 + quiet, 100 << 20, 150 << 20}, false},
		"little garbage":      {heap{1<<30 + 1<<20, 100 << 20, 116 << 20}, false},
	} {
		if got := tc.now.worthTrimming(before); got != tc.want {
			t.Errorf("%s: got %t, want %t", name, got, tc.want)
		}
	}
}

// Fails when the collector may fill all the container's memory, or when a limit in the environment is changed.
func TestATenthOfTheContainersMemoryIsLeft(t *testing.T) {
	for variable, want := range map[string]int64{"1073741824": 966367642, "10": 9, "920MiB": 0, "": 0, "off": 0, "-5": 0} {
		got, ok := memoryLimit(variable)
		if got != want || ok != (want != 0) {
			t.Errorf("GOMEMLIMIT=%s: got %d, %t, want %d", variable, got, ok, want)
		}
	}
}

// Fails when freed memory does not count, so that a process that has been busy keeps it.
func TestFreeMemoryCountsUntilItIsReturned(t *testing.T) {
	const size = 64 << 20
	func() { runtime.KeepAlive(bytes.Repeat([]byte{1}, size)) }()
	runtime.GC()
	before := readHeap().there
	debug.FreeOSMemory()
	if after := readHeap().there; before < after+size/2 {
		t.Errorf("%d bytes are there before, %d after", before, after)
	}
}
