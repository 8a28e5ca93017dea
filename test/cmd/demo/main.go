// Command demo runs the main job of notifier on a real control plane, step by step and readable. It ends with exit code
// 0 when every step succeeds. With KEEP=1 in the environment it then keeps running and prints commands to try.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"notifier/test/env"
)

// limit bounds the whole demo, the first compile of the control plane included.
const limit = 40 * time.Minute

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	tell := newNarrator(os.Stdout)
	d := &demo{narrator: tell}
	err := d.play(ctx)
	if err == nil && os.Getenv("KEEP") == "1" {
		err = d.keep(ctx)
	}
	if err != nil && d.notifier != nil {
		fmt.Fprintf(os.Stderr, "\nthe end of the notifier's log:\n%s\n", lastLines(d.notifier.Logs(), 20))
	}
	if e := env.Shutdown(); err == nil {
		err = e
	}
	if err != nil {
		tell.failed(err)
		return 1
	}
	tell.done()
	return 0
}
