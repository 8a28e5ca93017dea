package receiver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// publish puts all triggers of hook on the bus, concurrently, and returns when all are acknowledged or have failed. The
// sender's going away does not end it, since others may share it; time does.
func (w *Webhooks) publish(ctx context.Context, hook *Hook, accepted time.Time) error {
	if len(hook.Targets) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTime)
	defer cancel()
	if len(hook.Targets) == 1 {
		return w.publishOne(ctx, hook, 0, accepted)
	}
	errs := make([]error, len(hook.Targets))
	var wg sync.WaitGroup
	for i := range hook.Targets {
		wg.Go(func() { errs[i] = w.publishOne(ctx, hook, i, accepted) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// publishOne turns a panic into an error, because it may run in a goroutine of its own, where nobody else would.
func (w *Webhooks) publishOne(ctx context.Context, hook *Hook, target int, accepted time.Time) (err error) {
	defer func() {
		if p := recover(); p != nil {
			w.metrics.panics.Inc()
			err = fmt.Errorf("publish trigger: panic (%T)", p)
		}
	}()
	t := hook.Targets[target]
	t.Accepted = accepted
	if err := w.triggers.PublishTrigger(ctx, t); err != nil {
		return fmt.Errorf("publish trigger: %w", err)
	}
	return nil
}
