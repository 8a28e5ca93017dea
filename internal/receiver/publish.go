package receiver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"notifier/internal/event"
)

// publish puts triggers on the bus, concurrently, and returns when all are acknowledged or have failed. The
// sender's going away does not end it, since others may share it; time does.
func (w *Webhooks) publish(ctx context.Context, triggers []event.Trigger, accepted time.Time) error {
	if len(triggers) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTime)
	defer cancel()
	if len(triggers) == 1 {
		return w.publishOne(ctx, triggers[0], accepted)
	}
	errs := make([]error, len(triggers))
	var wg sync.WaitGroup
	for i := range triggers {
		wg.Go(func() { errs[i] = w.publishOne(ctx, triggers[i], accepted) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// publishOne turns a panic into an error, because it may run in a goroutine of its own, where nobody else would.
func (w *Webhooks) publishOne(ctx context.Context, t event.Trigger, accepted time.Time) (err error) {
	defer func() {
		if p := recover(); p != nil {
			w.metrics.panics.Inc()
			err = fmt.Errorf("publish trigger: panic (%T)", p)
		}
	}()
	t.Accepted = accepted
	if err := w.triggers.PublishTrigger(ctx, t); err != nil {
		return fmt.Errorf("publish trigger: %w", err)
	}
	return nil
}
