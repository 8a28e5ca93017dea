package alerts

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"notifier/internal/event"
	"notifier/internal/event/view"
)

// DefaultReplayWindow is the greatest age at which a dead letter is replayed when its Provider is mended.
const DefaultReplayWindow = time.Hour

// recoverGap is the least time between two listings of a Provider's dead letters because of a success. A destination may refuse every second
// message for good, and nothing is sent to it while they are listed.
const recoverGap = time.Minute

// final are the labels of dead letters that a change of the Provider cannot revive: they are unwanted, or cannot be sent.
var final = []string{labelOwnerGone, labelSuspended, labelUnsupported, labelUnverified, event.LabelTooLarge}

// replay has a Provider's dead letters tried once more when their cause may be mended. After a change of the Provider, or of a Secret
// that it names, these are the dead letters from before the change. After a success that follows a refusal, they are those that were
// never replayed.
func (s *shard) replay(work context.Context, q *queue, dest *Destination, now time.Time) {
	if q.replaying || q.requests > 0 {
		return // and again when that has ended
	}
	mended, recovered := q.mended, q.recovered && now.Sub(q.listed) >= recoverGap
	q.mended, q.recovered = false, q.recovered && !recovered
	if !mended && !recovered || !s.dead.revivable(q.key, now) || s.ReplayWindow == 0 {
		return
	}
	q.replaying, q.listing, q.listed = true, true, now
	s.spawn(func() {
		var letters []ended // all of them get their places before any is sent
		places := map[string]int{}
		err := s.eachDead(work, q.key, now.Add(-s.ReplayWindow), func(l *event.Dead) {
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
			if errors.Is(err, errDrains) {
				return
			}
			if err == nil && q.requests == 0 {
				s.publish(work, work, q, &republished{letters: letters, then: func(int) { q.replaying = false }})
				s.pump(work, q)
				return
			}
			// Requests that began meanwhile have places for their letters. What they leave is listed when they have ended.
			s.pump(work, q) // it does not list them at once, as q is replaying
			q.replaying, q.mended, q.recovered, q.listed = false, q.mended || mended, q.recovered || recovered, time.Time{}
			if err != nil {
				s.metrics.busErrors.Inc()
				s.log.Warn("dead letters not read", "namespace", q.key.Namespace, "provider", q.key.Provider, "error", err)
				s.wakes.set(q, time.Now().Add(recallGap))
			}
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

// resend publishes deliveries of one Provider, in their order, until shortly before ctx ends. It returns how many are on the bus, with an
// error as well, and the reasons why others are not, by their IDs: a delivery that has its place in a line already is not published.
func (d *Deliverer) resend(ctx context.Context, key event.ProviderKey, ready []ended) (resent int, _ map[string]string, _ error) {
	if len(ready) == 0 {
		return 0, nil, nil
	}
	s := d.shards.get(d.Bus.DeliveryShard(key.Namespace, key.Provider))
	if s == nil {
		return 0, nil, view.ErrNoWorker
	}
	deadline, _ := ctx.Deadline() // Replay sets one
	until, end := context.WithDeadline(ctx, deadline.Add(-busTimeout))
	defer end()
	over := make(chan struct{})
	refused := map[string]string{} // the loop may write it after the return
	p := republished{refused: refused}
	called := s.call(ctx, func(work context.Context) {
		q := s.queue(key.Namespace, key.Provider, time.Now())
		var giveBack []func()
		for _, e := range ready {
			if _, place := q.find(&e); place != nil {
				refused[e.id] = refusedWaiting
				continue
			}
			token := d.again.Take(key.Namespace+"/"+e.id, time.Now())
			if token == nil {
				refused[e.id] = refusedJustNow
				continue
			}
			p.letters, giveBack = append(p.letters, e), append(giveBack, token)
		}
		q.requests++
		p.then = func(tried int) {
			q.requests--
			for _, token := range giveBack[tried:] {
				token()
			}
			close(over)
		}
		s.publish(work, until, q, &p)
	})
	if !called {
		return 0, nil, cmp.Or(ctx.Err(), view.ErrNoWorker) // the loop was not reached
	}
	select {
	case <-over:
	case <-ctx.Done():
		return int(p.published.Load()), nil, ctx.Err()
	}
	resent = int(p.published.Load())
	if resent+len(refused) < len(ready) {
		return resent, refused, cmp.Or(until.Err(), view.ErrNoWorker) // the next request, or another worker's, does the rest
	}
	return resent, refused, nil
}

// find returns the place of a delivery, nil if it has none.
func (q *queue) find(e *ended) (*line, *entry) {
	l := q.lines[e.object]
	if l == nil {
		return nil, nil
	}
	i, found := l.find(e.order, e.id)
	if !found {
		return l, nil
	}
	return l, l.entries[i]
}

// republished are ended deliveries that are published again, in their order.
type republished struct {
	letters []ended
	// published is the number of those on the bus. refused has those that the bus does not take, nil if they are not asked for.
	published atomic.Int64
	refused   map[string]string
	// then is called by the loop in the end, with the number of those that the bus has taken or refused.
	then func(tried int)
}

// publish publishes ended deliveries, one after the other. They get their places in the lines before that, so that no later delivery
// overtakes them (invariant E4). At least one is published; when until ends or the drain begins, the others lose their places.
func (s *shard) publish(work, until context.Context, q *queue, p *republished) {
	for i := range p.letters {
		l, _ := q.place(p.letters[i].object, p.letters[i].order, p.letters[i].id, time.Now())
		q.refresh(l) // what waits behind it on the schedule need not be read yet
		s.dead.changes[q.key]++
	}
	s.spawn(func() {
		n := 0
		for ; n < len(p.letters) && (n == 0 || until.Err() == nil && !s.drains()); n++ {
			e, doubtful, large := &p.letters[n], false, false
			if !s.persist(work, q.key.Namespace, func(ctx context.Context) (err error) {
				if doubtful, err = s.republish(ctx, q.key, e); errors.Is(err, event.ErrTooLarge) {
					large, err = true, nil // it would be tried for ever
				}
				return err
			}) {
				break
			}
			if large {
				s.post(func() { s.leaveOut(q, p, e) })
				continue
			}
			p.published.Add(1)
			s.metrics.replayed.Inc()
			s.post(func() {
				s.dead.changes[q.key]--
				if e.seq > 0 {
					s.dead.add(q.key, e.alert, -1)
				}
				if doubtful {
					s.doubt(work, q, e)
				}
			})
		}
		s.post(func() {
			for i := range p.letters[n:] {
				s.dead.changes[q.key]--
				s.leavePlace(q, &p.letters[n+i])
			}
			if published := p.published.Load(); published > 0 {
				s.log.Info("deliveries replayed", "namespace", q.key.Namespace, "provider", q.key.Provider, "count", published)
			}
			p.then(n)
			s.pump(work, q)
		})
	})
}

// leaveOut leaves a delivery that the bus does not take.
func (s *shard) leaveOut(q *queue, p *republished, e *ended) {
	s.dead.changes[q.key]--
	s.leavePlace(q, e)
	if p.refused != nil {
		p.refused[e.id] = refusedTooLarge
	}
}

// leavePlace removes the place of a delivery that was not published, unless a message of it came meanwhile.
func (s *shard) leavePlace(q *queue, e *ended) {
	if l, place := q.find(e); place != nil && place.item == nil && !place.onSchedule && !place.rescheduled {
		q.forget(l, place, time.Now())
	}
}

// doubt looks for a delivery that has a place and may not be on the bus. If it is not there, its place is given up at once: until then
// nothing behind it is sent. A replayed delivery is not on the schedule, so one look is enough.
func (s *shard) doubt(work context.Context, q *queue, e *ended) {
	if l, place := q.find(e); place != nil && place.item == nil && !place.onSchedule && !place.recalling {
		place.missing = misses - 1
		s.recall(work, q, []lookup{q.mark(l, place, true)})
	}
}
