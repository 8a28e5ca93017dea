package receiver

import (
	"context"
	"fmt"
	"time"

	"notifier/internal/event"
)

// publish puts triggers on the bus, accepted at the given time, and returns when all are acknowledged or one has failed. It ends when the
// sender hangs up, so that such a sender uses nothing: without an answer nothing was promised. A panic is returned as an error, so that the
// sender tries again.
func (w *Webhooks) publish(ctx context.Context, targets []event.Trigger, accepted time.Time) (err error) {
	if len(targets) == 0 {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			w.panicked(p, targets[0].Namespace, targets[0].Receiver)
			err = fmt.Errorf("publish triggers: panic (%T)", p)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, publishTime)
	defer cancel()
	triggers := make([]event.Trigger, len(targets)) // a copy: the hook serves other webhooks as well
	for i, t := range targets {
		t.Accepted = accepted
		triggers[i] = t
	}
	if err := w.triggers.PublishTriggers(ctx, triggers...); err != nil {
		return fmt.Errorf("publish triggers: %w", err)
	}
	return nil
}
