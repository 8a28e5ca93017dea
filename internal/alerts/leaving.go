package alerts

import (
	"context"
	"slices"
	"time"
)

// leaving is an item that leaves memory without a send, by a verdict.
type leaving struct {
	it   *item
	dest *Destination
	v    verdict
}

func (l leaving) namespace() string { return l.it.queue.key.Namespace }

// shed puts back n of a queue's items, first those that would be sent first.
func (s *shard) shed(work context.Context, q *queue, n int, now time.Time) {
	spared := make([]*item, n)
	for i := range slices.Backward(spared) {
		spared[i] = q.last()
		q.dequeue(spared[i])
	}
	slices.SortFunc(spared, compareItems)
	for _, it := range spared {
		s.putBack(work, it, now)
	}
}

// putBack moves an item to the schedule, to be recalled when its turn comes, or gives it up if it has waited too long. The item is
// written once, however long it waits. Without a recall, the schedule hands it out when its lifetime ends.
func (s *shard) putBack(work context.Context, it *item, now time.Time) {
	switch {
	case it.recalled && len(it.twins) == 0:
		s.leave(it)
		it.queue.recallAt = now.Add(recallGap) // otherwise it would be recalled at once
		return
	case it.queue.bad(now) && !now.Before(s.expiry(&it.d)):
		s.expire(work, it)
		return
	}
	it.entry.unsent = it.entry.unsent || it.fresh()
	it.d.Reschedules++
	s.metrics.rescheduled.Inc()
	at := s.expiry(&it.d)
	if !now.Before(at) {
		at = now.Add(leastScheduled)
	}
	s.putAway(work, it, nil, verdict{action: reschedule, at: at})
}

// leastScheduled is the least time on the schedule. A delivery past its lifetime whose destination accepts sends is then not handed out all
// the time. The copy of a delivery that is being sent stays there longer than the send lasts.
const leastScheduled = time.Minute

// leave drops a recalled item from memory. The schedule has it unchanged, so nothing is written.
func (s *shard) leave(it *item) {
	it.queue.dequeue(it)
	s.drop(it)
	it.queue.release(it, s.expiry(&it.d), true)
	s.nak(it.acker)
}

// spare drops an item that is needless.
func (s *shard) spare(work context.Context, it *item, dest *Destination) {
	s.putAway(work, it, dest, verdict{action: drop, outcome: outcomeSkipped})
}

// expire gives up an item that could not be sent in its lifetime.
func (s *shard) expire(work context.Context, it *item) {
	last := it.d.LastError
	if last == "" && it.queue.unusable {
		last = it.queue.health.Reason
	}
	s.giveUp(work, it, labelExpired, s.expired(last))
}

// giveUpAll gives up all waiting items in memory. Deliveries on the schedule follow as they are recalled.
func (s *shard) giveUpAll(work context.Context, q *queue, label, reason string) {
	for len(q.waiting) > 0 {
		s.giveUp(work, q.waiting[0], label, reason)
	}
}

// giveUp ends a waiting item as a dead letter.
func (s *shard) giveUp(work context.Context, it *item, label, reason string) {
	dest := s.Destinations.Get(it.queue.key.Namespace, it.queue.key.Provider)
	if dest != nil {
		it.d.Destination = dest.Version
	} else {
		dest = it.queue.current
	}
	s.putAway(work, it, dest, verdict{action: toDeadLetters, label: label, reason: reason})
}

// putAway carries out a verdict that needs no send.
func (s *shard) putAway(work context.Context, it *item, dest *Destination, v verdict) {
	it.queue.dequeue(it)
	it.busy = true
	if v.action == toDeadLetters {
		s.dead.changes[it.queue.key]++
	}
	s.leaving.Push(leaving{it, dest, v})
	s.write(work)
}

// staying returns how many items are in memory, without those that leave it.
func (s *shard) staying() int { return len(s.items) - s.leaving.Len() - s.writing }

// write begins the writes of items that leave. There may be very many: one event is for each of a namespace's Alerts. So the others wait
// without a goroutine, and namespaces take turns.
func (s *shard) write(work context.Context) {
	for s.writing < writers && s.leaving.Len() > 0 {
		l := s.leaving.Pop()
		s.writing++
		s.spawnFor(func() func() {
			end := s.conclude(work, l.it, l.dest, l.v)
			return func() {
				s.writing--
				end()
				s.write(work)
			}
		})
	}
}
