package subscribe

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"notifier/internal/event"
	"notifier/internal/receiver"
)

// triggersFunc is a bus for triggers.
type triggersFunc func(context.Context, event.Trigger) error

func (f triggersFunc) PublishTriggers(ctx context.Context, triggers ...event.Trigger) error {
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
			panic(p) // the caller's
		}
	}
	return errors.Join(errs...)
}

// recorder is a bus that remembers what was published.
type recorder struct {
	mu        sync.Mutex
	published []event.Trigger
}

func (r *recorder) PublishTriggers(_ context.Context, triggers ...event.Trigger) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.published = append(r.published, triggers...)
	return nil
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.published)
}

// elapse lets time pass on the clock of a synctest bubble.
func elapse(d time.Duration) { <-time.After(d) }

// reports are those that were put about Receivers.
type reports map[string]receiver.Deliveries

func (r reports) Put(_ context.Context, key string, value []byte) error {
	var d receiver.Deliveries
	err := json.Unmarshal(value, &d)
	r[key] = d
	return err
}
