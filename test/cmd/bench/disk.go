package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"notifier/test/env"
)

const (
	// slowSync is added to each sync of a file in the measurement of a slow disk.
	slowSync = 5 * time.Millisecond
)

// traced calls f with a notifier that runs under strace with the arguments. It replaces the notifier of the other
// measurements meanwhile, since both serve the same cluster. It returns an error if the process may not be traced.
func (b *bench) traced(ctx context.Context, f func(n *env.Notifier) error, args ...string) (err error) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		return fmt.Errorf("syncs are counted and delayed by strace: %w; install it, for example with apt-get install strace", err)
	}
	if err := b.notifier.Stop(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.notifier.Restart(ctx)) }()
	// -D makes the tracer a child of the notifier, so that the started process is the notifier.
	under := append([]string{strace, "-D", "-f", "-qq", "--seccomp-bpf"}, args...)
	n, err := b.system.Start(ctx, env.NotifierOptions{Args: unlimited, Under: under})
	if err != nil {
		return fmt.Errorf("start under strace: %w", err)
	}
	defer func() { err = errors.Join(err, n.Stop()) }()
	return f(n)
}

// slowDisk measures events on a disk that takes 5 ms longer for each sync.
func (b *bench) slowDisk(ctx context.Context) error {
	p, err := b.plane(ctx)
	if err != nil {
		return err
	}
	inject := fmt.Sprintf("inject=fsync,fdatasync:delay_exit=%d", slowSync.Microseconds())
	return b.traced(ctx, func(n *env.Notifier) error {
		slow := p.contender(n, mostConnections)
		if err := interleave(ctx, windows, 2*eventWindow, slow, p.relay); err != nil {
			return err
		}
		b.add(row{
			name: fmt.Sprintf("events/s end to end, each sync %s slower", slowSync), measured: slow.String(),
			baseline: "bare relay " + p.relay.String(), value: slow.rate(), bound: 2000, unit: "/s",
		})
		return nil
	}, "-e", "trace=fsync,fdatasync", "-e", inject, "-o", os.DevNull)
}

// syncCalls match the calls of a trace that make one file's data durable: the syncs, and the opening of a file for
// synchronous writes.
var syncCalls = regexp.MustCompile(`(?m)\b(fsync|fdatasync|sync_file_range)\(|\bopenat\(.*\bO_D?SYNC\b`)

// syncs counts the syncs to disk for each event.
func (b *bench) syncs(ctx context.Context) error {
	p, err := b.plane(ctx)
	if err != nil {
		return err
	}
	dir, err := env.TempDir("trace")
	if err != nil {
		return err
	}
	trace := filepath.Join(dir, "syncs")
	count := func() (int, error) {
		text, err := os.ReadFile(trace)
		return len(syncCalls.FindAll(text, -1)), err
	}
	return b.traced(ctx, func(n *env.Notifier) error {
		c := p.contender(n, mostConnections)
		if err := interleave(ctx, 1, eventWindow, c); err != nil { // its first window warms up
			return err
		}
		before, err := count()
		if err != nil {
			return err
		}
		begin := p.sink.count.Load()
		if _, err := c.measure(ctx, eventWindow); err != nil {
			return err
		}
		events := float64(p.sink.count.Load() - begin)
		after, err := count()
		b.add(row{
			name: "syncs of files an event", measured: fmt.Sprintf("%d for %.0f events", after-before, events),
			value: float64(after-before) / events, bound: 0.2, atMost: true,
		})
		return err
	}, "-e", "trace=fsync,fdatasync,sync_file_range,openat", "-o", trace)
}
