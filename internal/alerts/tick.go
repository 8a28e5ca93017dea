package alerts

import (
	"context"
	"slices"
	"time"

	"notifier/internal/event"
)

const (
	// misses is how many looks in a row must miss a delivery before it counts as gone. One look may fall between a schedule that fired and
	// its message being handed out.
	misses = 2
	// looksPerTick bounds how many deliveries of a queue are looked up on the bus in a tick.
	looksPerTick = 4096
	// sweepEvery is the interval of sweep in ticks.
	sweepEvery = 6
	// idleFor is how long the queue of a Provider is kept without deliveries, with its limiter and breaker.
	idleFor = 10 * time.Minute
)

// tick does the periodic work of the shard.
func (s *shard) tick(work context.Context) {
	now := time.Now()
	for it := range s.items {
		s.keep(it)
	}
	s.spill(work, func(it *item) bool { return now.Sub(it.taken) >= spillAfter })
	s.ticks++
	var l load
	for key, q := range s.queues {
		if s.ticks%sweepEvery == 0 {
			s.sweep(work, q, now)
		}
		s.tidy(work, q, now)
		s.enforceShare(work, q)
		s.pump(work, q)
		s.sample(q)
		if oldest := q.oldest(); q.unusable {
			l.provider = earlier(l.provider, oldest)
		} else {
			l.destination = earlier(l.destination, oldest)
		}
		l.away += q.entries
		if q.breaker.open() {
			l.open++
		}
		if s.idle(q, now) {
			s.wakes.drop(q)
			delete(s.queues, key)
			s.shares.use(key.Namespace, -1)
			if s.longest == q {
				s.longest = nil
			}
		}
	}
	for _, q := range s.makeRevivable(now) {
		s.pump(work, q)
	}
	l.held = len(s.items) // after the loop: tidy puts some of them back
	l.away -= l.held
	s.load.Store(&l)
	s.readLetters(work, s.ticks%sweepEvery == 0)
}

// idle reports whether a queue may be forgotten.
func (s *shard) idle(q *queue, now time.Time) bool {
	switch {
	case len(q.lines) > 0 || q.replaying || q.requests > 0 || q.recalls > 0:
		return false
	case s.Destinations.Get(q.key.Namespace, q.key.Provider) == nil:
		return true
	}
	return now.Sub(q.idleSince) > idleFor && !s.dead.revivable(q.key, now)
}

// keep extends the deadlines of an item's messages on the bus.
func (s *shard) keep(it *item) {
	s.working(it.acker)
	for _, t := range it.twins {
		s.working(t.Acker)
	}
}

func (s *shard) working(m event.Acker) {
	if err := m.InProgress(); err != nil {
		s.log.Debug("hold not prolonged", "error", err)
	}
}

// tidy takes out of memory what is not to wait there. It gives up the items past their lifetime whose destination cannot be sent to, and puts
// back those that wait for a predecessor that is not expected soon. Short waits are spent in memory, where they end at once. Long waits would
// keep messages open, and the bus may hand out more only after these are acknowledged.
func (s *shard) tidy(work context.Context, q *queue, now time.Time) {
	bad := q.bad(now)
	for _, it := range slices.Clone(q.waiting) {
		ends := s.expiry(&it.d)
		if it.recalled && len(it.twins) == 0 {
			ends = ends.Add(tickEvery) // the schedule is handing it out, and would do so again after its end
		}
		if bad && !now.Before(ends) {
			s.expire(work, it)
		} else if head := it.line.head(); head.item == nil && !head.soon(now) {
			s.putBack(work, it, now)
		}
	}
}

// oldest returns when the delivery that has waited longest was routed, zero if none waits.
func (q *queue) oldest() time.Time {
	oldest := instant(0)
	for _, l := range q.lines {
		for _, e := range l.entries {
			if e.routed != 0 && (oldest == 0 || e.routed < oldest) {
				oldest = e.routed
			}
		}
	}
	return oldest.time()
}

// sweep examines all waiting deliveries. It gives up those that have lost their Alert or their Provider while nothing can be sent, and those
// that were to be given up and not read, and looks for overdue ones.
func (s *shard) sweep(work context.Context, q *queue, now time.Time) {
	if q.recalls > 0 {
		return
	}
	at, bad, providerGone := instantOf(now), q.bad(now), q.gone(now)
	gone := map[*ownerCount]bool{}
	if bad {
		for _, o := range q.owners {
			exists, _ := s.ownerOf(q.key.Namespace, o.named, now, now)
			gone[o] = !exists
		}
	}
	ended := func(e *entry) bool {
		return bad && (e.bound && providerGone || gone[e.owner] && at.sub(e.routed) >= ownerGrace)
	}
	var looks []lookup
	for _, l := range q.lines {
		for _, e := range l.entries {
			if e.recalling || len(looks) >= looksPerTick {
				continue
			}
			switch {
			case e.item == nil && e.overdue(at):
				looks = append(looks, q.mark(l, e, true))
			case e.item == nil && e.onSchedule && (e.owner == nil || e.givenUp != causeNone || ended(e)):
				looks = append(looks, q.mark(l, e, true))
			case e.item != nil && !e.item.busy && ended(e):
				s.giveUp(work, e.item, labelOwnerGone, reasonOwnerGone)
			}
		}
	}
	s.recall(work, q, looks)
}

// soon reports whether an absent delivery is expected before the next tick.
func (e *entry) soon(now time.Time) bool {
	wait := e.back.sub(instantOf(now))
	return e.recalling || !e.onSchedule && wait < tickEvery && -wait < overdueAfter
}

// discard removes from the schedule the remaining copy of an ended delivery that another message delivered. It leaves the retry of a later
// replay: the bus may answer only when the delivery was replayed and tried again.
func (s *shard) discard(work context.Context, q *queue, it *item) {
	p := q.scheduled(it.line, it.entry)
	s.spawn(func() {
		s.persist(work, q.key.Namespace, func(ctx context.Context) error {
			r, err := s.Bus.Recall(ctx, s.number, p)
			if err != nil || r.At.IsZero() || r.Held.Value.Replays > it.d.Replays {
				return err
			}
			return r.Held.Ack(ctx)
		})
	})
}
