// Command scale runs notifier beside a real control plane with as many objects as a large cluster. It prints one table
// of the costs, each figure with its bound, and ends with exit code 0 when every figure is within its bound.
//
// The bounds are those of 5,000 namespaces, which -namespaces 5000 makes in some ten minutes; the default is a quick
// look.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"notifier/test/env"
	"notifier/test/scale"
)

// limit bounds the whole measurement, the first compile of the control plane included.
const limit = 90 * time.Minute

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	flags.SetOutput(stderr)
	namespaces := flags.Int("namespaces", 50, "namespaces, each with 5 objects of notifier, 10 of Flux and a Secret")
	quiet := flags.Duration("quiet", 5*time.Second, "time after each start for which writes are counted")
	dir := flags.String("data-dir", "", "directory that keeps the control plane's data, so that the next measurement of that size need not make the objects again (default: a temporary one)")
	serve := flags.String("flags", "", "flags of the process, separated by spaces")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *namespaces < 2 {
		fmt.Fprintln(stderr, "scale: -namespaces is less than 2")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	figures, err := scale.Measure(ctx, scale.Size{
		Namespaces: *namespaces, Quiet: *quiet, Dir: *dir, Args: strings.Fields(*serve),
		Say: func(what string) { fmt.Fprintln(stderr, "scale:", what) },
	})
	if e := env.Shutdown(); err == nil {
		err = e
	}
	held := print(stdout, *namespaces, figures)
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "scale:", err)
		return 1
	case !held:
		fmt.Fprintln(stderr, "scale: a figure is out of its bound")
		return 1
	}
	return 0
}

// print writes the table and reports whether every figure is within its bound.
func print(w io.Writer, namespaces int, figures []scale.Figure) bool {
	held := true
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\n%d NAMESPACES\tVALUE\tBOUND\t\t\n", namespaces)
	for _, f := range figures {
		verdict := "ok"
		if !f.Held() {
			verdict, held = "NOT HELD", false
		}
		fmt.Fprintf(t, "%s\t%.4g %s\t≤ %g %s\t%s\t%s\n", f.Name, f.Value, f.Unit, f.Bound, f.Unit, verdict, f.Note)
	}
	t.Flush()
	return held
}
