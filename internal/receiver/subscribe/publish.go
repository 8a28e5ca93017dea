package subscribe

import (
	"context"
	"errors"
	"fmt"

	"notifier/internal/event"
	"notifier/internal/fair"
)

// interleaved returns the triggers in turns of their namespaces: the triggers of a namespace with few do not wait for the many of another
// (invariant T6).
func interleaved(triggers map[triggerID]event.Trigger) []event.Trigger {
	q := fair.NewQueue(func(t event.Trigger) string { return t.Namespace })
	for _, t := range triggers {
		q.Push(t)
	}
	turns := make([]event.Trigger, q.Len())
	for i := range turns {
		turns[i] = q.Pop()
	}
	return turns
}

// publish publishes triggers, and removes the stored ones from w.triggers. It holds the triggers of namespaces that have too many on the bus.
// The caller has the lock.
func (w *watch) publish(ctx context.Context, triggers []event.Trigger) error {
	err := w.Triggers.PublishTriggers(ctx, triggers...)
	if !errors.Is(err, event.ErrTooManyTriggers) {
		return w.published(triggers, err)
	}
	namespaces := map[string][]event.Trigger{}
	for _, t := range triggers {
		namespaces[t.Namespace] = append(namespaces[t.Namespace], t)
	}
	for _, own := range namespaces {
		err := w.Triggers.PublishTriggers(ctx, own...)
		if errors.Is(err, event.ErrTooManyTriggers) {
			for _, t := range own {
				w.held[triggerID{t.Namespace, t.Key}] = t
			}
			err = nil
		}
		if err := w.published(own, err); err != nil {
			return err
		}
	}
	return nil
}

// published removes stored triggers from w.triggers. It returns err if it is the reason why they are not stored.
func (w *watch) published(triggers []event.Trigger, err error) error {
	if err != nil {
		return fmt.Errorf("publish triggers: %w", err)
	}
	for _, t := range triggers {
		delete(w.triggers, triggerID{t.Namespace, t.Key})
	}
	return nil
}

// takeUpHeld has the held triggers published once more, but for those of Receivers that are gone or have changed: the targets of all
// versions of a Receiver are not bounded. The caller has the lock.
func (w *watch) takeUpHeld() {
	for id, t := range w.held {
		s, exists := w.Subscriptions.get(subscriber{t.Namespace, t.Receiver})
		if _, newer := w.triggers[id]; !newer && exists && s.UID == t.ReceiverUID && s.Generation == t.Generation {
			w.triggers[id] = t
		}
	}
	clear(w.held)
}
