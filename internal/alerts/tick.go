package alerts

import (
	"context"
	"time"

	"notifier/internal/event"
)

const (
	// askEvery is the least time between two looks at the bus for absent deliveries that hold others up, askAllEvery for
	// those that hold up nothing.
	askEvery    = 10 * time.Second
	askAllEvery = 15 * time.Minute
	// misses is how many looks in a row must miss a delivery before it counts as gone: one look may fall between a schedule
	// that fired and its message being handed out.
	misses = 2
	// idleFor is how long a queue without deliveries is kept, with its limiter and breaker.
	idleFor = 10 * time.Minute
)

// tick sees to what has no timer of its own.
func (s *shard) tick(work context.Context) {
	now := time.Now()
	for it := range s.items {
		s.keep(it)
	}
	held, away, open, holdUp := len(s.items), 0, 0, false
	var oldest time.Time
	for key, q := range s.queues {
		oldest = q.oldest(oldest)
		s.expireIn(work, q, now)
		s.tellHealth(q, now)
		holdUp = holdUp || q.heldUp(now)
		s.shelve(work, q, now)
		away += q.away
		if q.breaker.open() {
			open++
		}
		if len(q.lines) == 0 && now.Sub(q.idleSince) > idleFor {
			s.wakes.drop(q)
			delete(s.queues, key)
			if s.longest == q {
				s.longest = nil
			}
		}
	}
	s.show(held, away, open)
	s.showOldest(s.number, oldest)
	if !s.asking && (holdUp && now.Sub(s.asked) >= askEvery || away > 0 && now.Sub(s.askedAll) >= askAllEvery) {
		s.ask(work, now)
	}
}

// keep tells the bus that an item is still held.
func (s *shard) keep(it *item) {
	s.working(it.settler)
	for _, t := range it.twins {
		s.working(t.Settler)
	}
}

func (s *shard) working(m event.Settler) {
	if err := m.Working(); err != nil {
		s.log.Debug("hold not prolonged", "error", err)
	}
}

// expireIn gives up what waits in memory for a destination that cannot be sent to, when its time is over.
func (s *shard) expireIn(work context.Context, q *queue, now time.Time) {
	if !q.bad(now) {
		return
	}
	var expired []*item
	for _, it := range q.waiting {
		if !now.Before(expiry(&it.d)) {
			expired = append(expired, it)
		}
	}
	for _, it := range expired {
		s.expire(work, it)
	}
}

// shelve puts back what waits for a predecessor that is not expected soon. Short waits are spent in memory, where they end at
// once; long ones would keep messages from being settled, and the bus may want to see that before it hands out more.
func (s *shard) shelve(work context.Context, q *queue, now time.Time) {
	var shelved []*item
	for _, it := range q.waiting {
		if head := it.line.head(); head.item == nil && !head.soon(now) {
			shelved = append(shelved, it)
		}
	}
	for _, it := range shelved {
		s.putBack(work, it, now)
	}
}

// soon reports whether an absent delivery is expected before the next tick.
func (e *entry) soon(now time.Time) bool {
	wait := e.until.Sub(now)
	if e.until.IsZero() {
		return now.Sub(e.since) < tickEvery
	}
	return wait < tickEvery && -wait < overdueAfter
}

// heldUp reports whether an item waits for a predecessor that should have come back.
func (q *queue) heldUp(now time.Time) bool {
	for _, it := range q.waiting {
		if it.line.head().overdue(now) {
			return true
		}
	}
	return false
}

// ask looks at the bus for the deliveries that are away. Some may have ended elsewhere: a former owner of the shard settled
// them while it drained, or a limit of the stream removed them.
func (s *shard) ask(work context.Context, now time.Time) {
	s.asking, s.asked, s.askedAll = true, now, now
	s.spawn(func() {
		ctx, cancel := context.WithTimeout(work, tickEvery)
		defer cancel()
		backlog, err := s.Source.Backlog(ctx, s.number)
		s.post(func() {
			s.asking = false
			if err != nil {
				s.metrics.busErrors.Inc()
				s.log.Warn("list of parked deliveries not read", "error", err)
				return
			}
			s.reconsider(work, backlog.Parked, now)
		})
	})
}

// place is where a delivery stands, over all lines of a shard.
type place struct {
	key    destinationKey
	object string
	order  uint64
	id     string
}

// reconsider strikes off the lines what was away before the bus was asked and was missed often enough.
func (s *shard) reconsider(work context.Context, parked []event.Parked, asked time.Time) {
	there := make(map[place]bool, len(parked))
	for _, p := range parked {
		there[place{destinationKey{p.Namespace, p.Provider}, p.ObjectKey, p.Order, p.ID}] = true
	}
	now := time.Now()
	for _, q := range s.queues {
		if q.away == 0 {
			continue
		}
		struck := false
		for _, l := range q.lines {
			for _, e := range absent(l, asked) {
				if there[place{q.key, l.object, e.order, e.id}] {
					e.seen, e.missing = now, 0
					continue
				}
				if e.missing++; e.missing >= misses && e.overdue(now) {
					q.forget(l, e, now)
					struck = true
				}
			}
		}
		if struck {
			s.pump(work, q)
		}
	}
}

// absent returns the entries of a line that went away before a time.
func absent(l *line, before time.Time) []*entry {
	var entries []*entry
	for _, e := range l.entries {
		if e.item == nil && e.since.Before(before) {
			entries = append(entries, e)
		}
	}
	return entries
}

// tellHealth passes a report on if one is due. A report is about a Provider that exists: an Alert may name any, and what is reported
// of one that was deleted would stay for ever.
func (s *shard) tellHealth(q *queue, now time.Time) {
	dest := s.Destinations.Get(q.key.namespace, q.key.name)
	if q.health.now.State == "" || dest == nil || dest.UID != q.health.now.UID {
		return
	}
	report, again := q.health.due(q.away+len(q.waiting), now)
	if report != nil {
		s.Reports.Report(healthKey(kindProvider, q.key.namespace, q.key.name), report)
	}
	if !again.IsZero() {
		s.wakes.set(q, again)
	}
}
