package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"notifier/test/env"
	"notifier/test/load"
	"notifier/test/sender"
)

const (
	token = "bench"
	// windows of each side of a comparison, interleaved; the median counts.
	windows = 3
	window  = 5 * time.Second
)

// bench is the shared state of the measurements.
type bench struct {
	system   *env.System
	notifier *env.Notifier
	bare     *env.Process
	bareURL  string
	// issuer signs the tokens that Receivers accept, Google's as well.
	issuer *sender.Issuer
	events *eventPlane // nil until plane makes it
	rows   []row
}

// unlimited are the flags of a process with very high limits, so that its speed is measured and not its limits.
var unlimited = []string{"--receiver-rate", "0", "--events-client-rate", "0", "--events-namespace-rate", "0", "--namespace-quota", "1000000", "--kube-api-qps", "1000", "--kube-api-burst", "2000", "--log-level", "error"}

// step is a measurement.
type step struct {
	name string
	run  func(context.Context) error
	// needs is the name of the earlier step that makes the objects for this one, if there is one.
	needs string
}

func (b *bench) steps() []step {
	const (
		hot  = "one hot Receiver against a bare handler"
		many = "events with few Alerts and with 10,000"
	)
	return []step{
		{name: hot, run: b.hotReceiver},
		{name: "a flood and what it leads to", run: b.flood, needs: hot},
		{name: "each type of Receiver against a bare handler", run: b.typesAgainst},
		{name: "tenants beside one that floods", run: b.fairness},
		{name: "1,000 Receivers against a bare handler", run: b.manyReceivers},
		{name: "rejected webhooks", run: b.rejected},
		{name: "each type of Provider against a bare POST", run: b.destinationsAgainst},
		{name: "events end to end against a bare relay", run: b.endToEnd},
		{name: "events of two Alerts, and with 1,000 Providers", run: b.fanOut},
		{name: "events with and without a history", run: b.history},
		{name: "events, from POST to the sink, idle and at half load", run: b.latency},
		{name: "events on a disk with slow syncs", run: b.slowDisk},
		{name: "events' syncs", run: b.syncs},
		{name: "drain of 2,000 waiting deliveries", run: b.drain},
		{name: "restart with 100,000 deliveries waiting, and their drain", run: b.restartWaiting},
		{name: "listing deliveries, few and many kept", run: b.listing},
		{name: "watchers of the API", run: b.watchers},
		{name: many, run: b.manyAlerts},
		{name: "memory with 10,000 Alerts and 200,000 events delivered", run: b.memory, needs: many},
		{name: "start to ready with everything", run: b.startToReady, needs: many},
		{name: "scale: the worst figure of a cluster of many namespaces", run: b.scale},
	}
}

// chosen returns the steps whose name matches, and the steps that they need.
func chosen(steps []step, only *regexp.Regexp) ([]step, error) {
	wanted := map[string]bool{}
	var names []string
	for _, s := range slices.Backward(steps) { // a needed step precedes the steps that need it
		names = append(names, s.name)
		if only.MatchString(s.name) || wanted[s.name] {
			wanted[s.name], wanted[s.needs] = true, true
		}
	}
	if len(wanted) == 0 {
		slices.Reverse(names)
		return nil, fmt.Errorf("no measurement matches %q; there are:\n%s", only, strings.Join(names, "\n"))
	}
	return slices.DeleteFunc(steps, func(s step) bool { return !wanted[s.name] }), nil
}

// measure takes the measurements whose name matches. It returns the rows so far, also with an error.
func measure(ctx context.Context, only *regexp.Regexp) ([]row, error) {
	b := &bench{}
	steps, err := chosen(b.steps(), only)
	if err != nil {
		return nil, err
	}
	steps = slices.Insert(steps, 0, step{name: "starting the control plane and notifier", run: b.start})
	for _, step := range steps {
		begin := time.Now()
		fmt.Fprintf(os.Stderr, "bench: %s …\n", step.name)
		if err := step.run(ctx); err != nil {
			return b.rows, fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Fprintf(os.Stderr, "bench: %s: %s\n", step.name, time.Since(begin).Round(100*time.Millisecond))
	}
	return b.rows, nil
}

func (b *bench) add(r row) { b.rows = append(b.rows, r) }

func (b *bench) start(ctx context.Context) error {
	var err error
	if b.system, err = env.NewSystem(ctx, false); err != nil {
		return err
	}
	if b.issuer, err = sender.NewIssuer(); err != nil { // ends with the process
		return err
	}
	args := slices.Concat(unlimited, []string{"--google-issuer", b.issuer.URL})
	if b.notifier, err = b.system.Start(ctx, env.NotifierOptions{Args: args}); err != nil {
		return err
	}
	b.bare, b.bareURL, err = load.StartBare(ctx, token)
	return err
}

// parallel runs f for 0 to n-1, some at a time.
func parallel(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(32)
	for i := range n {
		g.Go(func() error { return f(ctx, i) })
	}
	return g.Wait()
}

// progress prints the state of a long step on standard error.
func progress(what string, total int) (advance func()) {
	var mu sync.Mutex
	done, said := 0, time.Now()
	return func() {
		mu.Lock()
		defer mu.Unlock()
		done++
		if time.Since(said) > 5*time.Second || done == total {
			said = time.Now()
			fmt.Fprintf(os.Stderr, "bench: … %s: %d of %d\n", what, done, total)
		}
	}
}
