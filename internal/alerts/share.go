package alerts

import (
	"context"
	"sync"
	"sync/atomic"

	"notifier/internal/event"
)

// unknownShare divides a Provider's share: events that their objects do not confirm may fill that part of it (invariant E9).
const unknownShare = 4

// share counts the waiting deliveries of one namespace in the shards of this process. The namespace's quota is divided evenly among its
// Providers that have deliveries waiting, and a Provider over its share gives up its oldest. So a Provider that is down never takes the
// quota of a healthy one (invariant E5). With more such Providers than the quota, none of them has a share: an Alert that is edited again and
// again can name any number of them.
type share struct {
	deliveries, providers atomic.Int64
	givenUp               atomic.Int64 // the part of deliveries that is to be given up
	kib                   atomic.Int64 // of the deliveries that were read here
	held, heldBytes       atomic.Int64 // the deliveries in memory, also those that are leaving it
	users                 int          // queues, and deliveries that were dispatched before their shard was served, under shares.mu
}

// Bounds on the deliveries of one namespace in memory. One event is a delivery for each Alert of its namespace. While a namespace has more, its
// events wait, and its deliveries on the schedule stay there, but for one of each Provider. The bounds are well above what a destination that
// keeps up needs.
const (
	namespaceHeld      = 8192
	namespaceHeldBytes = 32 << 20
)

// hold records that n more deliveries are in memory, of a size in bytes. Both may be negative.
func (s *share) hold(n, bytes int64) {
	s.held.Add(n)
	s.heldBytes.Add(bytes)
}

// full reports whether the namespace has as many deliveries in memory as it may have.
func (s *share) full() bool {
	return s.held.Load() >= namespaceHeld || s.heldBytes.Load() >= namespaceHeldBytes
}

// crowded reports whether the namespace has half as many. More of them are not read from the schedule: what waits for Providers that are down
// must leave room for the next events of the namespace (invariant E5).
func (s *share) crowded() bool {
	return s.held.Load() >= namespaceHeld/2 || s.heldBytes.Load() >= namespaceHeldBytes/2
}

// reserve holds the bytes of one more delivery unless the namespace is crowded, and reports whether it does. Several deliveries are read at a
// time: without their sizes, each would be read as if it were the last for which there is room.
func (s *share) reserve(bytes int64) bool {
	if s.crowded() {
		return false
	}
	if s.heldBytes.Add(bytes)-bytes >= namespaceHeldBytes/2 {
		s.heldBytes.Add(-bytes)
		return false
	}
	return true
}

// excess returns by how many deliveries a Provider with n of them is over its share of a quota. It is zero unless the namespace is over
// the quota or has more than kib KiB waiting. perProvider is the Provider's share.
func (s *share) excess(n, quota int, kib int64) (excess, perProvider int) {
	all := s.deliveries.Load()
	if used := s.kib.Load(); used > kib {
		quota = min(quota, max(1, int(kib*all/used)))
	}
	perProvider = quota / int(max(1, s.providers.Load()))
	over := int(all) - quota
	if perProvider == 0 {
		over -= int(s.givenUp.Load()) // else each of very many Providers would give up for all of them; with shares, all over theirs do so alike
	}
	return max(0, min(over, n-perProvider)), perProvider
}

// shares are the namespaces that have queues.
type shares struct {
	mu sync.Mutex
	of map[string]*share
}

func newShares() *shares { return &shares{of: map[string]*share{}} }

// use adds n users to a namespace's share, or takes them away, and returns it. A share without users is forgotten.
func (s *shares) use(namespace string, n int) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of[namespace]
	if of == nil {
		of = &share{}
		s.of[namespace] = of
	}
	if of.users += n; of.users == 0 {
		delete(s.of, namespace)
	}
	return of
}

// holdEarly records that deliveries are in memory before their shard is served, with -1 that they no longer are.
func (s *shares) holdEarly(ds []event.Message[event.Delivery], sign int) {
	for i := range ds {
		d := &ds[i].Value
		s.use(d.Namespace, sign).hold(int64(sign), int64(sign*d.Event.Size()))
	}
}

// full reports whether a namespace has as many deliveries in memory as it may have.
func (s *shares) full(namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.of[namespace]
	return n != nil && n.full()
}

// cause is the reason for which a delivery is given up before its turn.
type cause uint8

const (
	causeNone cause = iota
	causeOwnerGone
	causeQuota
	causeUnverified
)

// causes has the label and the reason of each.
var causes = [...]struct{ label, reason string }{
	causeOwnerGone:  {labelOwnerGone, reasonOwnerGone},
	causeQuota:      {event.LabelQuota, "the namespace has more deliveries waiting than its quota, and this Provider most of them: the oldest are given up"},
	causeUnverified: {labelUnverified, "too many events are waiting that their objects do not bear out: the oldest are given up"},
}

// enforceShare gives up the oldest deliveries of a queue that is over its share. Direct deliveries do not count: a destination that keeps
// up loses nothing in a burst beyond its share.
func (s *shard) enforceShare(work context.Context, q *queue) {
	deliveries, bytes := s.Bus.Quota()
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

// direct reports whether the delivery keeps its event open, which just happened. Unless it is sent within spillAfter, it is put on the
// schedule to wait there.
func (e *entry) direct() bool { return e.item != nil && e.item.direct }

// directs counts the direct deliveries that wait. It excludes those that are being sent, which may have a copy on the schedule.
func (q *queue) directs() (n int) {
	for _, it := range q.waiting {
		if it.entry.direct() {
			n++
		}
	}
	return n
}

// giveUpOldest gives up the n oldest matching deliveries of a queue that wait in memory or on the schedule, at most recallBatch of them
// at a time. It leaves deliveries that are being sent or wait for their retry.
func (s *shard) giveUpOldest(work context.Context, q *queue, n int, why cause, match func(*entry) bool) {
	var scheduled []lookup
	for range min(n, recallBatch) {
		it, l := q.oldestWaiting(match), q.oldestScheduled(match)
		if it == nil && l == nil {
			break
		}
		if it != nil && (l == nil || it.entry.before(l.next)) {
			q.noteGivenUp(it.entry, why)
			s.giveUp(work, it, causes[why].label, causes[why].reason)
			continue
		}
		q.noteGivenUp(l.next, why)
		scheduled = append(scheduled, q.mark(l, l.next, false))
	}
	s.recall(work, q, scheduled)
}

// noteGivenUp records that an entry is to be given up, so that it no longer counts against its share. One whose read failed is noted again.
func (q *queue) noteGivenUp(e *entry, why cause) {
	if e.givenUp != causeNone {
		return
	}
	q.countUnknown(e, -1)
	e.givenUp = why
	q.count(0, 1, 0)
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

// oldestScheduled returns the line whose next entry is the oldest that matches, nil if there is none. It looks at the oldest of each rank
// alone: of the entries of one rank on the schedule, match takes all or none.
func (q *queue) oldestScheduled(match func(*entry) bool) *line {
	var oldest *line
	for _, lines := range q.recallable {
		if len(lines) > 0 && match(lines[0].next) && (oldest == nil || lines[0].Before(oldest)) {
			oldest = lines[0]
		}
	}
	return oldest
}
