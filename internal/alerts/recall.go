package alerts

import (
	"container/heap"
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"notifier/internal/event"
	"notifier/internal/fair"
)

const (
	// recallBatch is how many deliveries of a queue are recalled, or given up, at a time. recallReaders is how many are read concurrently.
	recallBatch   = 64
	recallReaders = 8
	// recallAhead bounds how many of one object's deliveries are in memory while the first of them is sent.
	recallAhead = 16
	// recallGap is the pause before a queue that had too many items, or could not be read, recalls again.
	recallGap = time.Second
)

// linesByRank are the lines of a queue with an entry to recall, by the rank of that entry. In each rank the line with the oldest is first.
type linesByRank [rankUnknown + 1]fair.Heap[*line]

// Before implements fair.HeapItem, for the lines of one rank.
func (l *line) Before(other *line) bool { return l.next.before(other.next) }

// Index implements fair.HeapItem.
func (l *line) Index() *int { return &l.recallIndex }

// candidate returns the line's first entry that waits on the schedule if all before it are in memory or being read. Entries that are
// retried or handed out later must be sent first (invariant E4).
func (l *line) candidate() *entry {
	for i, e := range l.entries {
		switch {
		case i >= recallAhead:
			return nil
		case e.item != nil || e.recalling:
		case e.onSchedule:
			return e
		default:
			return nil
		}
	}
	return nil
}

// first returns the line whose entry is to be recalled first, nil if there is none.
func (r *linesByRank) first() *line {
	for _, lines := range r {
		if len(lines) > 0 {
			return lines[0]
		}
	}
	return nil
}

// refresh updates a line's place among the recallable lines after a change of its entries.
func (q *queue) refresh(l *line) {
	l.next = l.candidate()
	present := l.recallIndex != fair.NotInHeap
	switch {
	case present && l.next != nil && l.next.rank == l.rank:
		heap.Fix(&q.recallable[l.rank], l.recallIndex)
		return
	case present:
		heap.Remove(&q.recallable[l.rank], l.recallIndex)
	}
	if l.next != nil {
		l.rank = l.next.rank
		heap.Push(&q.recallable[l.rank], l)
	}
}

// adopt takes over a destination. If its configuration changed, what waits for a retry is recalled: it may be accepted now.
func (q *queue) adopt(to *Destination, now time.Time) {
	if !q.destinationState.adopt(to, now) {
		return
	}
	soon := instantOf(now.Add(earliestRetry))
	for _, l := range q.lines {
		for _, e := range l.entries {
			e.onSchedule = e.onSchedule || e.item == nil && e.back > soon
		}
		q.refresh(l)
	}
}

// lookup is an entry that is being read, and the purpose.
type lookup struct {
	line  *line
	entry *entry
	// look says that the delivery is only to be found, not to be taken.
	look bool
	// bytes is the size of the event as far as it is known, else zero.
	bytes int64
	// taken is the entry's, as the read begins.
	taken uint16
}

// take marks and returns up to n entries to recall, in the order of their turns.
func (q *queue) take(n int) []lookup {
	taken := make([]lookup, 0, min(n, recallBatch))
	for l := q.recallable.first(); l != nil && len(taken) < cap(taken); l = q.recallable.first() {
		taken = append(taken, q.mark(l, l.next, false))
	}
	return taken
}

func (q *queue) mark(l *line, e *entry, look bool) lookup {
	e.recalling = true
	q.recalls++
	q.refresh(l)
	return lookup{l, e, look, int64(e.kib) << 10, e.taken}
}

// refill recalls deliveries from the schedule while the queue has space for them.
func (s *shard) refill(work context.Context, q *queue, now time.Time) {
	if q.recalls > 0 || q.recallable.first() == nil {
		return
	}
	if q.recallAt.After(now) {
		s.wakes.set(q, q.recallAt)
		return
	}
	if n := s.room(q, now); n > 0 {
		s.recall(work, q, q.take(n))
	}
}

// urgent reports whether an entry on the schedule precedes a waiting item, which then takes its place there.
func (q *queue) urgent() bool {
	first := q.recallable.first()
	return first != nil && len(q.waiting) > 0 && first.next.rank < q.waiting[len(q.waiting)-1].entry.rank
}

// room returns how many deliveries to recall for a queue: its free depth, once that is a quarter of the depth or an entry is urgent. While
// its namespace has half as many in memory as it may, a queue without items gets one.
func (s *shard) room(q *queue, now time.Time) int {
	if q.share.crowded() {
		return max(0, 1-len(q.waiting))
	}
	depth := q.depth(now)
	if s.heldBytes.Load() > maxHeldBytes/2 { // every queue may add a batch
		depth = badDepth
	}
	room := depth - len(q.waiting)
	switch {
	case q.urgent():
		room = max(room, badDepth)
	case room < depth/4:
		return 0
	}
	free := maxHeld - s.staying()
	if len(q.waiting) == 0 {
		free = max(free, badDepth) // a queue without items always gets some
	}
	return min(room, free)
}

// errNoRoom says that a delivery was not read, since its namespace has as many in memory as it may.
var errNoRoom = errors.New("no room in memory")

// recall reads marked entries, a few at a time, and posts each result to the loop. What there is no room for is left to the next refill or
// sweep.
func (s *shard) recall(work context.Context, q *queue, places []lookup) {
	if len(places) == 0 {
		return
	}
	s.spawnFor(func() func() {
		var g errgroup.Group
		g.SetLimit(recallReaders)
		for i, p := range places {
			g.Go(func() error {
				found, err := s.read(work, q, p, i == 0)
				s.post(func() { s.recalled(work, q, p, &found, err) })
				return nil
			})
		}
		_ = g.Wait()
		return func() { s.pump(work, q) }
	})
}

// read reads a marked entry. It reads one that is not the first of several only while its namespace may have more in memory: what waits may be
// larger than the memory.
func (s *shard) read(work context.Context, q *queue, p lookup, first bool) (found event.Recalled, err error) {
	err = s.inTurn(work, q.key.Namespace, func() (err error) {
		switch {
		case q.share.reserve(p.bytes):
		case first:
			q.share.hold(0, p.bytes)
		default:
			return errNoRoom
		}
		ctx, cancel := busContext(work)
		defer cancel()
		found, err = s.Bus.Recall(ctx, s.number, q.scheduled(p.line, p.entry))
		q.share.hold(0, sizeOf(&found)-p.bytes)
		return err
	})
	return found, err
}

// recalled takes in the result of read.
func (s *shard) recalled(work context.Context, q *queue, p lookup, found *event.Recalled, err error) {
	now := time.Now()
	s.endRead(q, p, found, err)
	switch {
	case s.draining:
		return
	case !p.line.has(p.entry) || p.entry.taken != p.taken:
		// It was handed out meanwhile. It may wait again, in a newer copy than was found.
	case err == nil:
		s.takeRecalled(work, q, p, found, now)
	case !errors.Is(err, errNoRoom):
		q.recallAt = now.Add(recallGap)
	}
	q.refresh(p.line)
}

// compare reads the copy of a delivery that waits on the schedule since a former worker, when a message of the delivery was handed out as well.
// The newer one is sent. It may be of a later replay, and must not end with the other.
func (s *shard) compare(work context.Context, it *item) {
	it.busy = true
	q, p := it.queue, it.queue.mark(it.line, it.entry, true)
	s.spawnFor(func() func() {
		found, err := s.read(work, q, p, true)
		return func() {
			s.endRead(q, p, &found, err)
			it.busy = false
			if s.draining {
				s.returnAll(it)
				return
			}
			if err == nil && !found.At.IsZero() {
				s.join(it, found.Held)
			}
			s.enqueue(it)
			s.pump(work, q)
		}
	})
}

// endRead takes back what read and its mark have taken.
func (s *shard) endRead(q *queue, p lookup, found *event.Recalled, err error) {
	q.share.hold(0, -sizeOf(found))
	p.entry.recalling = false
	q.recalls--
	if err != nil && !errors.Is(err, errNoRoom) && !s.draining {
		s.metrics.busErrors.Inc()
		s.log.Warn("rescheduled delivery not read", "namespace", q.key.Namespace, "provider", q.key.Provider, "error", err)
	}
}

// sizeOf returns about how many bytes a delivery takes that was read, zero if none was found.
func sizeOf(r *event.Recalled) int64 {
	if r.At.IsZero() {
		return 0
	}
	return int64(r.Held.Value.Event.Size())
}

// takeRecalled decides the next step for one entry that was read.
func (s *shard) takeRecalled(work context.Context, q *queue, p lookup, r *event.Recalled, now time.Time) {
	e := p.entry
	switch {
	case r.Due: // the bus hands it out
		e.onSchedule, e.back, e.missing = false, instantOf(now), 0
		if p.look {
			e.back = instantOf(now.Add(seenFor))
		}
		return
	case r.At.IsZero():
		// A former worker acknowledged it while it drained, or it is just being handed out: one look may fall between a schedule that fired and
		// its message.
		e.onSchedule, e.back = false, instantOf(now)
		if e.missing++; e.missing >= misses {
			q.forget(p.line, e, now)
		}
		return
	}
	d := &r.Held.Value
	q.learn(p.line, e, d)
	e.missing = 0
	switch {
	case e.givenUp == causeNone && s.ended(q, d, now):
		q.noteGivenUp(e, causeOwnerGone)
		fallthrough
	case e.givenUp != causeNone:
		it := s.take(q, p.line, e, *d, r.Held.Acker)
		it.recalled = true
		s.giveUp(work, it, causes[e.givenUp].label, causes[e.givenUp].reason)
	case d.Attempts > 0 && !q.changedSince(d) && r.At.After(now.Add(earliestRetry)) && r.At.Before(s.expiry(d)):
		e.onSchedule, e.back = false, instantOf(r.At) // it was rescheduled for its retry, by another owner
	case p.look:
		e.onSchedule = true
	default:
		it := s.take(q, p.line, e, *d, r.Held.Acker)
		it.recalled = true
		s.enqueue(it)
	}
}

// earliestRetry is the time ahead beyond which a retry is left on the schedule.
const earliestRetry = time.Second

// take makes an item of an absent entry.
func (s *shard) take(q *queue, l *line, e *entry, d event.Delivery, m event.Acker) *item {
	it := &item{d: d, acker: m, queue: q, line: l, entry: e}
	q.learn(l, e, &d)
	e.item, e.missing, e.onSchedule = it, 0, false
	e.taken++
	q.refresh(l)
	s.items[it] = struct{}{}
	s.hold(q, 1, it.bytes())
	return it
}

// drop removes an item from memory.
func (s *shard) drop(it *item) {
	delete(s.items, it)
	s.hold(it.queue, -1, -it.bytes())
}

// hold records that n more of a queue's deliveries are in memory, of a size in bytes. Both may be negative.
func (s *shard) hold(q *queue, n, bytes int64) {
	s.heldBytes.Add(bytes)
	q.share.hold(n, bytes)
}
