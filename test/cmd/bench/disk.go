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

// traced has f measure a notifier that runs under strace with the arguments, in the stead of the one that the other measurements use: it
// serves the same cluster. A process that may not be traced is an error.
func (b *bench) traced(ctx context.Context, f func(n *env.Notifier) error, args ...string) (err error) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		return fmt.Errorf("syncs are counted and delayed by strace: %w; install it, for example with apt-get install strace", err)
	}
	if err := b.notifier.Stop(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.notifier.Restart(ctx)) }()
	// -D makes the tracer a child of the notifier, whose process is then the one that was started.
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

// syncCalls match the calls of a trace that make one file's data durable: the two syncs, and a file that is opened to be written through.
var syncCalls = regexp.MustCompile(`(?m)\b(fsync|fdatasync|sync_file_range)\(|\bopenat\(.*\bO_D?SYNC\b`)

// syncs counts what the disk is asked to make durable for each event.
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
