package alerts

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"notifier/internal/event"
	"notifier/internal/event/view"
)

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
