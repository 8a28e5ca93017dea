package app

import "testing"

// Fails when a small container has so few goroutines run at once that a collection holds up every event, or when the choice of an
// administrator, or Go's for a large machine, is changed.
func TestASmallContainerRunsFourGoroutinesAtOnce(t *testing.T) {
	for _, c := range []struct {
		now      int
		variable string
		want     int
	}{{1, "", 4}, {2, "", 4}, {4, "", 0}, {64, "", 0}, {2, "2", 0}} {
		if got := processors(c.now, c.variable); got != c.want {
			t.Errorf("%d, GOMAXPROCS=%q: set to %d, want %d", c.now, c.variable, got, c.want)
		}
	}
}
