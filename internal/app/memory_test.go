package app

import "testing"

// Fails when a process that has much in memory lets half as much again pile up as garbage, or one that has little collects all the time.
func TestGarbageIsBoundedWhereMuchLives(t *testing.T) {
	for live, want := range map[uint64]int{0: 50, 30 << 20: 50, 80 << 20: 50, 160 << 20: 25, 1 << 30: 15} {
		if got := percentFor(live); got != want {
			t.Errorf("%d MiB: got %d%%, want %d%%", live>>20, got, want)
		}
	}
}
