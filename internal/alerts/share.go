package alerts

import (
	"context"
	"sync"
	"sync/atomic"

	"notifier/internal/event"
)

// unknownShare is the part of a Provider's share that events may fill which their objects do not bear out (invariant E9).
const unknownShare = 4

// share counts what one namespace has waiting in the shards of this process. Its quota is divided evenly among the Providers that have
// something waiting, so a Provider that is down never takes the room of a healthy Provider (invariant E5): a Provider over its
// share gives up its oldest.
type share struct {
	deliveries, providers atomic.Int64
	kib                   atomic.Int64 // of what was seen here
	users                 int          // queues, under shares.mu
}

// add notes that a Provider has one more waiting, n in all.
func (s *share) add(n int) {
	s.deliveries.Add(1)
	if n == 1 {
		s.providers.Add(1)
	}
}

// remove notes that a Provider has one less waiting, of a size in KiB, n in all.
func (s *share) remove(n int, kib uint16) {
	s.deliveries.Add(-1)
	s.kib.Add(-int64(kib))
	if n == 0 {
		s.providers.Add(-1)
	}
}

// leave notes that a Provider's n deliveries, of a size in KiB, are somebody else's from now on.
func (s *share) leave(n int, kib int64) {
	s.deliveries.Add(-int64(n))
	s.kib.Add(-kib)
	if n > 0 {
		s.providers.Add(-1)
	}
}

// excess is by how many a Provider with n deliveries is over its share of a quota, while its namespace is over the quota or has more than a
// number of KiB waiting, and perProvider its share.
func (s *share) excess(n, quota int, kib int64) (excess, perProvider int) {
	all := s.deliveries.Load()
	if used := s.kib.Load(); used > kib {
		quota = min(quota, max(1, int(kib*all/used)))
	}
	perProvider = max(1, quota/int(max(1, s.providers.Load())))
	over := int(all) - quota
	return max(0, min(over, n-perProvider)), perProvider
}

// shares are the namespaces that have queues.
type shares struct {
	mu sync.Mutex
	of map[string]*share
}

func (s *shares) get(namespace string) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.of[namespace]
	if n == nil {
		if s.of == nil {
			s.of = map[string]*share{}
		}
		n = &share{}
		s.of[namespace] = n
	}
	n.users++
	return n
}

func (s *shares) put(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.of[namespace]; n != nil {
		if n.users--; n.users == 0 {
			delete(s.of, namespace)
		}
	}
}

// cause is why a delivery is given up before its turn.
type cause uint8

const (
	causeNone cause = iota
	causeOwnerGone
	causeQuota
	causeUnverified
)

// causes has what is told of each.
var causes = [...]struct{ label, reason string }{
	causeOwnerGone:  {labelOwnerGone, reasonOwnerGone},
	causeQuota:      {event.LabelQuota, "the namespace has more deliveries waiting than its quota, and this Provider most of them: the oldest are given up"},
	causeUnverified: {labelUnverified, "too many events are waiting that their objects do not bear out: the oldest are given up"},
}

// enforceShare gives up the oldest deliveries of a queue that is over its share. What is direct is not counted: a destination that keeps
// up loses nothing because more happened at once than its share has room for.
func (s *shard) enforceShare(work context.Context, q *queue) {
	deliveries, bytes := s.Source.Quota()
	quota, kib := min(s.Quota, deliveries), bytes>>10
	excess, most := q.share.excess(q.entries-q.givenUp, quota, kib)
	if unknown := q.unknown - max(1, most/unknownShare); unknown > 0 {
		s.giveUpOldest(work, q, unknown, causeUnverified, func(e *entry) bool { return e.rank == rankUnknown })
	}
	if excess == 0 {
		return
	}
	if excess, _ = q.share.excess(q.entries-q.givenUp-q.directs(), quota, kib); excess > 0 {
		s.giveUpOldest(work, q, excess, causeQuota, func(e *entry) bool { return !e.direct() })
	}
}

// direct reports whether the delivery holds its event, which just happened: unless it is sent within spillAfter it is put on the schedule,
// to wait there.
func (e *entry) direct() bool { return e.item != nil && e.item.direct }

// directs counts the direct deliveries that wait. Those that are being sent are left out: of these there may be a copy on the schedule.
func (q *queue) directs() (n int) {
	for _, it := range q.waiting {
		if it.entry.direct() {
			n++
		}
	}
	return n
}

// giveUpOldest gives up the n oldest of a queue's deliveries that match, of those that wait in memory or on the schedule. What is under way or
// waits for its retry is left.
func (s *shard) giveUpOldest(work context.Context, q *queue, n int, why cause, match func(*entry) bool) {
	var recallHeap []lookup
	for range min(n, recallBatch) {
		it, l := q.oldestWaiting(match), q.oldestShelved(match)
		if it == nil && l == nil {
			break
		}
		if it != nil && (l == nil || it.entry.before(l.next)) {
			q.noteGivenUp(it.entry, why)
			s.giveUp(work, it, q.current, causes[why].label, causes[why].reason)
			continue
		}
		q.noteGivenUp(l.next, why)
		recallHeap = append(recallHeap, q.mark(l, l.next, false))
	}
	s.recall(work, q, recallHeap)
}

// noteGivenUp notes that an entry is to be given up, so that it is not counted against its share any more.
func (q *queue) noteGivenUp(e *entry, why cause) {
	q.countUnknown(e, -1)
	e.givenUp = why
	q.givenUp++
}

// countUnknown adds n to the count of unknown entries if the entry is one of them.
func (q *queue) countUnknown(e *entry, n int) {
	if e.rank == rankUnknown && e.givenUp == causeNone {
		q.unknown += n
	}
}

// oldestWaiting returns the oldest item that waits and matches, nil if there is none.
func (q *queue) oldestWaiting(match func(*entry) bool) *item {
	var oldest *item
	for _, it := range q.waiting {
		if match(it.entry) && (oldest == nil || it.entry.before(oldest.entry)) {
			oldest = it
		}
	}
	return oldest
}

// oldestShelved returns the line whose next entry is the oldest that matches, nil if there is none.
func (q *queue) oldestShelved(match func(*entry) bool) *line {
	if len(q.recallable) > 0 && q.recallable[0].next.rank == rankInfo && match(q.recallable[0].next) { // before which there are none but by age
		return q.recallable[0]
	}
	var oldest *line
	for _, l := range q.recallable {
		if match(l.next) && (oldest == nil || l.next.before(oldest.next)) {
			oldest = l
		}
	}
	return oldest
}
