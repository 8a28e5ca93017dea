package alerts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"notifier/internal/event"
	"notifier/internal/event/view"
	"notifier/internal/fair"
)

// lettersAtOnce bounds the deliveries that the process reads whole at a time: dead letters, sent deliveries that are made anew, and those on
// the schedule, for all replays, counts and recalls together. Those of one Provider may be larger than the memory of the process, and many
// Providers may be mended at once. The bus answers one request after the other, so more would hardly be faster. A turn lasts for one
// delivery: a Provider with many does not keep the others waiting (E5). A namespace with many Providers has namespaceLetters of the turns at
// a time.
const (
	lettersAtOnce    = 16
	namespaceLetters = lettersAtOnce / 2
)

// wholeLetters are the dead letters on the bus, and the deliveries that were sent. A replay keeps their outlines in memory, and each is read
// whole once more when it is published.
type wholeLetters struct {
	DeadLetters
	archive Archive
	alerts  *Table
	turns   *fair.Capacities[string]
}

func newWholeLetters(of DeadLetters, archive Archive, alerts *Table) *wholeLetters {
	return &wholeLetters{
		DeadLetters: of, archive: archive, alerts: alerts,
		turns: fair.NewCapacities[string](fair.NewCapacity(lettersAtOnce), namespaceLetters, 0),
	}
}

// each calls f with the dead letters of a Provider that are no older than since, in the order in which they were given up. What f keeps of
// a letter is to be its outline at most.
func (w *wholeLetters) each(ctx context.Context, key destinationKey, since time.Time, f func(*event.Dead)) error {
	for next := uint64(1); next > 0; {
		err := w.turn(ctx, key.namespace, func() (err error) {
			var letter *event.Dead
			if letter, next, err = w.NextDead(ctx, key.namespace, key.name, since, next); letter != nil {
				f(letter)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Replay publishes the delivery of an outline. One that is gone was published by an earlier try or another replay, or the bus has dropped it,
// or its event. A test message is whole.
func (w *wholeLetters) Replay(ctx context.Context, outline event.Dead) error {
	if outline.Delivery.Test && outline.Seq == 0 {
		return w.DeadLetters.Replay(ctx, outline)
	}
	return w.turn(ctx, outline.Delivery.Namespace, func() error {
		whole, err := w.read(ctx, &outline)
		if errors.Is(err, view.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		outline.Delivery.Event, outline.Delivery.Authored = whole.Event, whole.Authored
		return w.DeadLetters.Replay(ctx, outline)
	})
}

// read returns the delivery of an outline whole, or view.ErrNotFound if it is gone. With a Seq of 0 it was sent.
func (w *wholeLetters) read(ctx context.Context, outline *event.Dead) (*event.Delivery, error) {
	d := &outline.Delivery
	if outline.Seq == 0 {
		a, known := w.alerts.Lookup(d.Namespace, d.Alert)
		if !known {
			return nil, view.ErrNotFound
		}
		return w.made(ctx, a, d.Order, d.ID)
	}
	letter, _, err := w.NextDead(ctx, d.Namespace, d.Provider, time.Time{}, outline.Seq)
	switch {
	case err != nil:
		return nil, err
	case letter == nil || letter.Seq != outline.Seq:
		return nil, view.ErrNotFound
	}
	return &letter.Delivery, nil
}

// errOtherAlert says that a delivery was for an earlier Alert of the name.
var errOtherAlert = fmt.Errorf("%w: it was another Alert's", view.ErrNotFound)

// made makes a delivery that was sent anew, as the router makes it: from its event, for its Alert. It returns view.ErrNotFound if the event is
// not kept, and errOtherAlert.
func (w *wholeLetters) made(ctx context.Context, a *Alert, order uint64, id string) (*event.Delivery, error) {
	rec, err := w.archive.EventAt(ctx, a.Namespace, order)
	if err != nil {
		return nil, err
	}
	d, _ := address(rec, a)
	if d.ID != id { // the Alert's UID is in it
		return nil, errOtherAlert
	}
	return &d, nil
}

// turn runs f, which reads of a namespace, when few enough others run.
func (w *wholeLetters) turn(ctx context.Context, namespace string, f func() error) error {
	use, err := w.turns.Acquire(ctx, namespace, 1)
	if err != nil {
		return err
	}
	defer use.Release()
	return f()
}

// outlineOf returns a dead letter without its parts of any size: the event, but for its object, and what renew forgets.
func outlineOf(letter *event.Dead) event.Dead {
	o := *letter
	d := &o.Delivery
	d.Event, d.Authored = event.Event{InvolvedObject: d.Event.InvolvedObject}, nil
	d.LastError, d.Tries = "", nil
	return o
}
