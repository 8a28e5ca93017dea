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
		var letters []ended // all of them get their places before any is sent
		places := map[string]int{}
		err := s.whole.each(work, q.key, now.Add(-s.ReplayWindow), func(l *event.Dead) {
			changed := l.Delivery.Destination != dest.Version
			if slices.Contains(final, l.Label) || !(mended && changed || recovered && l.Delivery.Replays == 0) {
				return
			}
			e := endedOf(&l.Delivery, l.Seq)
			if i, twice := places[e.id]; twice {
				letters[i] = e // the replay of the last letter has the highest count: two at once would replace each other on the bus
				return
			}
			places[e.id] = len(letters)
			letters = append(letters, e)
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
func (d *Deliverer) resend(ctx context.Context, key destinationKey, ready []ended) (resent int, refused map[string]string, _ error) {
	if len(ready) == 0 {
		return 0, nil, nil
	}
	s := d.shards.get(d.Source.DeliveryShard(key.namespace, key.name))
	if s == nil {
		return 0, nil, view.ErrNoWorker
	}
	var published atomic.Int64
	over := make(chan struct{})
	refused = map[string]string{}
	called := s.call(ctx, func(work context.Context) {
		q := s.queue(key.namespace, key.name, time.Now())
		var allowed []ended
		for _, e := range ready {
			switch {
			case q.has(&e):
				refused[e.id] = refusedWaiting
			case !d.requests.again.Allow(deliveryKey{key.namespace, e.id}):
				refused[e.id] = refusedJustNow
			default:
				allowed = append(allowed, e)
			}
		}
		s.publish(work, q, allowed, &published, func() { close(over) })
	})
	if !called {
		return 0, nil, cmp.Or(ctx.Err(), view.ErrNoWorker) // the loop was not reached
	}
	select {
	case <-over:
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
func (q *queue) has(e *ended) (found bool) {
	if l := q.lines[e.object]; l != nil {
		_, found = l.find(e.order, e.id)
	}
	return found
}

// publish publishes ended deliveries, one after the other, and counts those on the bus. They get their places in the lines before that, so
// that no later delivery overtakes them (invariant E4). In the end the loop calls then.
func (s *shard) publish(work context.Context, q *queue, letters []ended, published *atomic.Int64, then func()) {
	for i := range letters {
		q.place(letters[i].object, letters[i].order, letters[i].id, time.Now())
	}
	s.dead.changing(q.key, len(letters))
	s.spawn(func() {
		n := 0
		for ; n < len(letters); n++ {
			e, doubtful := &letters[n], false
			if !s.persist(work, q.key.namespace, func(ctx context.Context) (err error) {
				doubtful, err = s.whole.publish(ctx, q.key, e)
				return err
			}) {
				break
			}
			published.Add(1)
			s.metrics.replayed.Inc()
			s.post(func() {
				s.dead.changed(q.key)
				if e.seq > 0 {
					s.dead.add(q.key, e.alert, -1)
				}
				if doubtful {
					s.doubt(work, q, e)
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
			then()
			s.pump(work, q)
		})
	})
}

// doubt looks for a delivery that has a place and may not be on the bus. If it is not there, its place is given up at once: until then
// nothing behind it is sent. A replayed delivery is not on the schedule, so one look is enough.
func (s *shard) doubt(work context.Context, q *queue, e *ended) {
	l := q.lines[e.object]
	if l == nil {
		return
	}
	if i, found := l.find(e.order, e.id); found {
		if place := l.entries[i]; place.item == nil && !place.onSchedule && !place.recalling {
			place.missing = misses - 1
			s.recall(work, q, []lookup{q.mark(l, place, true)})
		}
	}
}
