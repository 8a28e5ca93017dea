package alerts

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"

	"notifier/internal/event"
)

// lettersAtOnce bounds the dead letters that the process has whole in memory at a time, for all replays and counts together. Those of one
// Provider may be larger than the memory of the process, and many Providers may be mended at once. The bus answers one request after the
// other, so more would hardly be faster. A turn lasts for one letter: a Provider with many does not keep the others waiting (E5).
const lettersAtOnce = 16

// wholeLetters are the dead letters on the bus. A replay keeps their outlines in memory, and each is read whole once more when it is
// published.
type wholeLetters struct {
	DeadLetters
	turns *semaphore.Weighted
}

func newWholeLetters(of DeadLetters) *wholeLetters {
	return &wholeLetters{DeadLetters: of, turns: semaphore.NewWeighted(lettersAtOnce)}
}

// each calls f with the dead letters of a Provider that are no older than since, in the order in which they were given up. What f keeps of
// a letter is to be its outline at most.
func (w *wholeLetters) each(ctx context.Context, key destinationKey, since time.Time, f func(*event.Dead)) error {
	for next := uint64(1); next > 0; {
		err := w.turn(ctx, func() (err error) {
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

// Replay publishes the dead letter of an outline. A letter that is gone was published by an earlier try or another replay, or the bus has
// dropped it. With a Seq of 0 it is the delivery itself, which was sent.
func (w *wholeLetters) Replay(ctx context.Context, outline event.Dead) error {
	if outline.Seq == 0 {
		return w.DeadLetters.Replay(ctx, outline)
	}
	d := &outline.Delivery
	return w.turn(ctx, func() error {
		letter, _, err := w.NextDead(ctx, d.Namespace, d.Provider, time.Time{}, outline.Seq)
		if err != nil || letter == nil || letter.Seq != outline.Seq {
			return err
		}
		d.Event, d.Authored = letter.Delivery.Event, letter.Delivery.Authored
		return w.DeadLetters.Replay(ctx, outline)
	})
}

// turn runs f when few enough others run.
func (w *wholeLetters) turn(ctx context.Context, f func() error) error {
	if err := w.turns.Acquire(ctx, 1); err != nil {
		return err
	}
	defer w.turns.Release(1)
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
