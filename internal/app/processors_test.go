package app

import "testing"

// Fails when a small machine has so few goroutines run at once that a collection holds up every event, or when the choice of an
// administrator, Go's for a limit of the container, or Go's for a large machine is changed.
func TestASmallMachineRunsFourGoroutinesAtOnce(t *testing.T) {
	for _, c := range []struct {
		now, machine int
		variable     string
		want         int
	}{{1, 1, "", 4}, {2, 2, "", 4}, {2, 16, "", 0}, {4, 4, "", 0}, {64, 64, "", 0}, {2, 2, "2", 0}} {
		if got := processors(c.now, c.machine, c.variable); got != c.want {
			t.Errorf("%d of %d, GOMAXPROCS=%q: set to %d, want %d", c.now, c.machine, c.variable, got, c.want)
		}
	}
}
