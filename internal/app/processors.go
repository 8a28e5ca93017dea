package app

import (
	"os"
	"runtime"
)

// leastProcessors is how many goroutines may run at once, on any machine. Go allows as many as the machine or the container has
// processors. With two, the collector or a sync of a file takes one of them for milliseconds, and each of the dozen steps of an event can
// wait that long for the other. With four, the kernel gives a processor to the step that has just become ready: measured with two
// processors, p99 at half load fell by half, and the rate rose by a third.
const leastProcessors = 4

// setProcessors raises GOMAXPROCS to leastProcessors. GOMAXPROCS in the environment overrides it, as for any Go program.
func setProcessors() {
	if n := processors(runtime.GOMAXPROCS(0), os.Getenv("GOMAXPROCS")); n > 0 {
		runtime.GOMAXPROCS(n) // it is left alone otherwise: Go follows the container's limit until it is set
	}
}

// processors returns what GOMAXPROCS is to be set to, zero for no change.
func processors(now int, variable string) int {
	if variable != "" || now >= leastProcessors {
		return 0
	}
	return leastProcessors
}
