package alerts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"notifier/internal/event"
	"notifier/internal/event/view"
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

// eachDead calls f with the dead letters of a Provider that are no older than since, in the order in which they were given up. f keeps no
// letter.
func (s *shard) eachDead(ctx context.Context, key event.ProviderKey, since time.Time, f func(*event.Dead)) error {
	for next := uint64(1); next > 0; {
		err := s.inTurn(ctx, key.Namespace, func() (err error) {
			var letter *event.Dead
			if letter, next, err = s.Bus.NextDead(ctx, key.Namespace, key.Provider, since, next); letter != nil {
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

// ended is a delivery that is to be published again, by its place and its name. There may be very many of them: each is read whole once more
// when it is published.
type ended struct {
	// object is the event.ObjectKey of its object.
	object    string
	order     uint64
	id, alert string
	// seq is the place of its dead letter, 0 for none.
	seq uint64
	// sent is a delivery that was sent, without its event, or a test message. It is nil for a dead letter.
	sent *event.Delivery
}

func endedOf(d *event.Delivery, seq uint64) ended {
	return ended{object: event.ObjectKey(d.Object()), order: d.Order, id: d.ID, alert: d.Alert, seq: seq}
}

// republish publishes an ended delivery of a Provider. It reports doubtful if the delivery may not be on the bus: it is gone, since an earlier
// try or another replay has published it, or the bus has dropped it, or its event.
func (d *Deliverer) republish(ctx context.Context, key event.ProviderKey, e *ended) (doubtful bool, err error) {
	if e.sent != nil && e.sent.Test {
		return false, d.Bus.Replay(ctx, event.Dead{Delivery: *e.sent})
	}
	err = d.inTurn(ctx, key.Namespace, func() error {
		letter, err := d.readEnded(ctx, key, e)
		if errors.Is(err, view.ErrNotFound) {
			doubtful = true
			return nil
		}
		if err != nil {
			return err
		}
		renew(&letter.Delivery, time.Now())
		return d.Bus.Replay(ctx, *letter)
	})
	return doubtful, err
}

// readEnded returns an ended delivery whole, or view.ErrNotFound if it is gone.
func (d *Deliverer) readEnded(ctx context.Context, key event.ProviderKey, e *ended) (*event.Dead, error) {
	if e.sent == nil {
		letter, _, err := d.Bus.NextDead(ctx, key.Namespace, key.Provider, time.Time{}, e.seq)
		if err == nil && (letter == nil || letter.Seq != e.seq) {
			err = view.ErrNotFound
		}
		return letter, err
	}
	a, known := d.Alerts.Lookup(key.Namespace, e.alert)
	if !known {
		return nil, view.ErrNotFound
	}
	made, err := d.madeAnew(ctx, a, e.order, e.id)
	if err != nil {
		return nil, err
	}
	whole := *e.sent
	whole.Event, whole.Authored, whole.Annotated = made.Event, made.Authored, made.Annotated
	return &event.Dead{Delivery: whole}, nil
}

// errOtherAlert says that a delivery was for an earlier Alert of the name.
var errOtherAlert = fmt.Errorf("%w: it was another Alert's", view.ErrNotFound)

// madeAnew makes a delivery that was sent anew, as the router makes it: from its event, for its Alert. It returns view.ErrNotFound if the event is
// not kept, and errOtherAlert.
func (d *Deliverer) madeAnew(ctx context.Context, a *Alert, order uint64, id string) (*event.Delivery, error) {
	rec, err := d.Bus.EventAt(ctx, a.Namespace, order)
	if err != nil {
		return nil, err
	}
	made, _ := address(rec, a)
	if made.ID != id { // the Alert's UID is in it
		return nil, errOtherAlert
	}
	return &made, nil
}

// inTurn runs f, which reads deliveries of a namespace whole, when few enough others run.
func (d *Deliverer) inTurn(ctx context.Context, namespace string, f func() error) error {
	use, err := d.whole.Acquire(ctx, namespace, 1)
	if err != nil {
		return err
	}
	defer use.Release()
	return f()
}

// errDrains says that a delivery was not read, since the shard is given up.
var errDrains = errors.New("the shard is given up")

// inTurn is Deliverer.inTurn until the drain begins. From then on it returns errDrains: the next owner reads anew.
func (s *shard) inTurn(ctx context.Context, namespace string, f func() error) error {
	return s.Deliverer.inTurn(ctx, namespace, func() error {
		if s.drains() {
			return errDrains
		}
		return f()
	})
}

// drains reports whether the drain has begun. Tasks ask it; the loop has draining.
func (s *shard) drains() bool {
	select {
	case <-s.stopped:
		return true
	default:
		return false
	}
}
