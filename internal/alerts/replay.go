package alerts

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"notifier/internal/event"
	"notifier/internal/event/view"
)

// DefaultReplayWindow is the greatest age at which a dead letter is replayed when its Provider is mended.
const DefaultReplayWindow = time.Hour

// final are the labels of dead letters that a change of the Provider cannot revive: they are unwanted, or cannot be sent.
var final = []string{labelOwnerGone, labelSuspended, labelUnsupported, labelUnverified, event.LabelTooLarge}

// replay has a Provider's dead letters tried once more when their cause may be mended. After a change of the Provider, or of a Secret
// that it names, these are the dead letters from before the change. After a success that follows a refusal, they are those that were
// never replayed.
func (s *shard) replay(work context.Context, q *queue, dest *Destination, now time.Time) {
	if q.replaying {
		return // and again when that has ended
	}
	mended, recovered := q.mended, q.recovered
	q.mended, q.recovered = false, false
	if !mended && !recovered || !s.dead.revivable(q.key, now) || s.ReplayWindow == 0 {
		return
	}
	q.replaying, q.listing = true, true
	s.spawn(func() {
		var letters []event.Dead // outlines: all of them get their places before any is sent
		err := s.whole.each(work, q.key, now.Add(-s.ReplayWindow), func(l *event.Dead) {
			changed := l.Delivery.Destination != dest.Version
			if !slices.Contains(final, l.Label) && (mended && changed || recovered && l.Delivery.Replays == 0) {
				letters = append(letters, outlineOf(l))
			}
		})
		s.post(func() {
			q.listing = false
			if err != nil {
				s.metrics.busErrors.Inc()
				s.log.Warn("dead letters not read", "namespace", q.key.namespace, "provider", q.key.name, "error", err)
				s.pump(work, q) // it does not list them at once, as q is replaying
				q.replaying, q.mended, q.recovered = false, q.mended || mended, q.recovered || recovered
				s.wakes.set(q, time.Now().Add(recallGap))
				return
			}
			for i := range letters {
				renew(&letters[i].Delivery, time.Now())
			}
			s.publish(work, q, letters, new(atomic.Int64), func() { q.replaying = false })
			s.pump(work, q)
		})
	})
}

// renew prepares an ended delivery to be tried anew, under the same ID.
func renew(d *event.Delivery, now time.Time) {
	d.Replays++
	d.Reschedules++
	d.Replayed, d.Recheck = now, false
	d.Attempts, d.FirstAttempt, d.LastError, d.Tries = 0, time.Time{}, "", nil
}

// resend publishes deliveries of one Provider, in their order. It returns how many are on the bus, with an error as well, and the reasons
// why others are not, by their IDs: a delivery that has its place in a line already is not published. When ctx ends the publishing continues.
func (d *Deliverer) resend(ctx context.Context, key destinationKey, ready []event.Dead) (resent int, refused map[string]string, _ error) {
	if len(ready) == 0 {
		return 0, nil, nil
	}
	s := d.shards.get(d.Source.DeliveryShard(key.namespace, key.name))
	if s == nil {
		return 0, nil, view.ErrNoWorker
	}
	var published atomic.Int64
	ended := make(chan struct{})
	refused = map[string]string{}
	called := s.call(ctx, func(work context.Context) {
		q := s.queue(key.namespace, key.name, time.Now())
		var allowed []event.Dead
		for _, letter := range ready {
			r := &letter.Delivery
			switch {
			case q.has(r):
				refused[r.ID] = refusedWaiting
			case !d.requests.again.Allow(deliveryKey{r.Namespace, r.ID}):
				refused[r.ID] = refusedJustNow
			default:
				allowed = append(allowed, letter)
			}
		}
		s.publish(work, q, allowed, &published, func() { close(ended) })
	})
	if !called {
		return 0, nil, cmp.Or(ctx.Err(), view.ErrNoWorker) // the loop was not reached
	}
	select {
	case <-ended:
	case <-ctx.Done(): // the loop may write refused
		return int(published.Load()), nil, ctx.Err()
	}
	resent = int(published.Load())
	if resent+len(refused) < len(ready) {
		return resent, refused, view.ErrNoWorker // another worker does the rest on the next request
	}
	return resent, refused, nil
}

// has reports whether a delivery has a place.
func (q *queue) has(d *event.Delivery) (found bool) {
	if l := q.lines[event.ObjectKey(d.Object())]; l != nil {
		_, found = l.find(d.Order, d.ID)
	}
	return found
}

// publish publishes dead letters, one after the other, and counts those on the bus. They get their places in the lines before that, so that
// no later delivery overtakes them (invariant E4). Then it has the loop call ended.
func (s *shard) publish(work context.Context, q *queue, letters []event.Dead, published *atomic.Int64, ended func()) {
	for i := range letters {
		d := &letters[i].Delivery
		q.place(event.ObjectKey(d.Object()), d.Order, d.ID, time.Now())
	}
	s.dead.changing(q.key, len(letters))
	s.spawn(func() {
		n := 0
		for ; n < len(letters); n++ {
			letter := &letters[n]
			if !s.persist(work, q.key.namespace, func(ctx context.Context) error { return s.whole.Replay(ctx, *letter) }) {
				break
			}
			published.Add(1)
			s.metrics.replayed.Inc()
			s.post(func() {
				s.dead.changed(q.key)
				if letter.Seq > 0 {
					s.dead.add(&letter.Delivery, -1)
				}
			})
		}
		s.post(func() {
			for range letters[n:] {
				s.dead.changed(q.key)
			}
			if n > 0 {
				s.log.Info("deliveries replayed", "namespace", q.key.namespace, "provider", q.key.name, "count", n)
			}
			ended()
			s.pump(work, q)
		})
	})
}
