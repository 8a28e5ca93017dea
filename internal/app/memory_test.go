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

// Fails when the collector may fill all that the container has, or a limit that somebody chose is changed.
func TestATenthOfTheContainersMemoryIsLeft(t *testing.T) {
	for variable, want := range map[string]int64{"1073741824": 966367642, "10": 9, "920MiB": 0, "": 0, "off": 0, "-5": 0} {
		got, ok := memoryLimit(variable)
		if got != want || ok != (want != 0) {
			t.Errorf("GOMEMLIMIT=%s: got %d, %t, want %d", variable, got, ok, want)
		}
	}
}
