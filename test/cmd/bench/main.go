// Command bench measures what notifier claims about its speed and prints one table, every row a ratio or a bound measured in this
// run on this machine: machines differ and are noisy, so a number alone proves nothing.
//
// It ends with exit code 0 when every row is within its bound.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"notifier/test/harness"
	"notifier/test/load"
)

// limit bounds the whole benchmark, the first compile of the control plane included.
const limit = 45 * time.Minute

func main() {
	load.Main()
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	rows, err := measure(ctx)
	if e := harness.Shutdown(); err == nil {
		err = e
	}
	held := printTable(os.Stdout, rows)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	case !held:
		fmt.Fprintln(os.Stderr, "bench: a row is out of its bound")
		return 1
	}
	return 0
}
