package receivertest

import (
	"context"
	"errors"
	"sync"

	"notifier/internal/event"
)

// TriggersFunc is a bus that stores each trigger with a function, all triggers of one call at the same time. A panic of the function
// reaches the caller.
type TriggersFunc func(context.Context, event.Trigger) error

// PublishTriggers implements receiver.Triggers.
func (f TriggersFunc) PublishTriggers(ctx context.Context, triggers ...event.Trigger) error {
	errs, panics := make([]error, len(triggers)), make([]any, len(triggers))
	var wg sync.WaitGroup
	for i, t := range triggers {
		wg.Go(func() {
			defer func() { panics[i] = recover() }()
			errs[i] = f(ctx, t)
		})
	}
	wg.Wait()
	for _, p := range panics {
		if p != nil {
			panic(p)
		}
	}
	return errors.Join(errs...)
}

// Stored is a TriggersFunc that stores every trigger at no cost.
func Stored(context.Context, event.Trigger) error { return nil }

// Recorder is a bus that records the published triggers.
type Recorder struct {
	mu        sync.Mutex
	Published []event.Trigger
}

// PublishTriggers implements receiver.Triggers.
func (r *Recorder) PublishTriggers(_ context.Context, triggers ...event.Trigger) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Published = append(r.Published, triggers...)
	return nil
}

// Count returns the number of published triggers.
func (r *Recorder) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.Published)
}
