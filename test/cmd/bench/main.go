// Command bench measures notifier's claims about its speed and prints one table. Every row is a ratio or a bound
// measured in this run on this machine: machines differ and are noisy, so a number alone proves nothing.
//
// It ends with exit code 0 when every row is within its bound.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"notifier/test/env"
	"notifier/test/load"
)

// limit bounds the whole benchmark, the first compile of the control plane included.
const limit = 45 * time.Minute

func main() {
	load.Main()
	only := flag.String("run", "", "take only the measurements whose name matches this regular expression, and those that they need")
	flag.Parse()
	os.Exit(run(*only))
}

func run(only string) int {
	pattern, err := regexp.Compile(only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: -run:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	rows, err := measure(ctx, pattern)
	if e := env.Shutdown(); err == nil {
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
