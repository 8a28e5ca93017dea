package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// stage is a set of parts that run together and end together. Stages start in order and stop in reverse.
type stage struct {
	name string
	// grace bounds the time in which the parts of the stage end.
	grace time.Duration
	parts []part
}

// part is one blocking piece of the process: it returns when its context ends, and an error if it cannot go on.
type part struct {
	name string
	run  func(context.Context) error
}

// running is a stage that was started.
type running struct {
	stage
	cancel context.CancelFunc
	done   chan struct{} // closed when every part has returned
}

// runStages starts the stages in order, waits until ctx ends or a part fails, and stops them in reverse order. It returns the first part's
// failure, nil if ctx ended. A part that outlives its stage's grace is left behind, and its stage is named in the log: the process is about
// to end, and the bus keeps the part's unfinished messages.
func runStages(ctx context.Context, log *slog.Logger, stages []stage) error {
	failed := make(chan error, 1)
	var started []running
	for _, s := range stages {
		started = append(started, start(context.WithoutCancel(ctx), s, failed))
	}
	var failure error
	select {
	case <-ctx.Done():
		log.Info("stopping")
	case failure = <-failed:
		log.Error("stopping because a part failed", "error", failure)
	}
	for _, s := range slices.Backward(started) {
		s.stop(log)
	}
	return failure
}

func start(ctx context.Context, s stage, failed chan<- error) running {
	ctx, cancel := context.WithCancel(ctx)
	r := running{stage: s, cancel: cancel, done: make(chan struct{})}
	var wg sync.WaitGroup
	for _, p := range s.parts {
		wg.Go(func() {
			err := p.run(ctx)
			switch {
			case ctx.Err() != nil:
				return // stopped by ctx: its result no longer matters
			case err == nil:
				err = errors.New("ended by itself")
			}
			select {
			case failed <- fmt.Errorf("%s: %w", p.name, err):
			default: // an earlier failure already stops the process
			}
		})
	}
	go func() { // joined by stop through done
		wg.Wait()
		close(r.done)
	}()
	return r
}

func (r running) stop(log *slog.Logger) {
	r.cancel()
	timer := time.NewTimer(r.grace)
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
		log.Warn("a part did not end in time", "stage", r.name, "grace", r.grace.String())
	}
}
