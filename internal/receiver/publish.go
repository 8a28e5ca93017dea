package receiver

import (
	"context"
	"fmt"
	"time"

	"notifier/internal/event"
)

// publish puts triggers on the bus, accepted at the given time, and returns when all are acknowledged or one has failed. The
// sender's going away does not end it, since others may share it; time does. A panic is an error like others: the sender is to try again.
func (w *Webhooks) publish(ctx context.Context, targets []event.Trigger, accepted time.Time) (err error) {
	if len(targets) == 0 {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			w.metrics.panics.Inc()
			err = fmt.Errorf("publish triggers: panic (%T)", p)
		}
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTime)
	defer cancel()
	triggers := make([]event.Trigger, len(targets)) // a copy, for those who publish the same targets
	for i, t := range targets {
		t.Accepted = accepted
		triggers[i] = t
	}
	if err := w.triggers.PublishTriggers(ctx, triggers...); err != nil {
		return fmt.Errorf("publish triggers: %w", err)
	}
	return nil
}
