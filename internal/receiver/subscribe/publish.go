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
				w.hold(t)
			}
			err = nil
		}
		if err := w.published(own, err); err != nil {
			return err
		}
	}
	return nil
}

// hold keeps a trigger until there is room, and has the next worker trigger its Receiver if this term ends before. If the Receiver was edited
// since, its guard becomes that of the trigger's version again, so that the present version triggers: see succeed. The trigger of a Receiver
// that is gone is dropped: another one of its name may be another tenant's (invariant E1). The caller has the lock.
func (w *watch) hold(t event.Trigger) {
	id := subscriber{t.Namespace, t.Receiver}
	if s, exists := w.Subscriptions.get(id); !exists || s.UID != t.ReceiverUID {
		return
	}
	w.held[idOf(t)] = t
	g := w.guards[id]
	if g == nil || g.uid != t.ReceiverUID {
		g = &guard{uid: t.ReceiverUID, generation: t.Generation}
		w.guards[id] = g
	}
	if !g.held || t.Generation < g.generation {
		g.held, g.generation = true, min(g.generation, t.Generation)
		w.report(id, g)
	}
}

// released reports the Receivers that have no held triggers any more. The caller has the lock.
func (w *watch) released() {
	holding := map[subscriber]bool{}
	for _, t := range w.held {
		holding[subscriber{t.Namespace, t.Receiver}] = true
	}
	for id, g := range w.guards {
		if g.held && !holding[id] {
			g.held = false
			w.report(id, g)
		}
	}
}

// published removes stored triggers from w.triggers. It returns err if it is the reason why they are not stored.
func (w *watch) published(triggers []event.Trigger, err error) error {
	if err != nil {
		return fmt.Errorf("publish triggers: %w", err)
	}
	for _, t := range triggers {
		delete(w.triggers, idOf(t))
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
