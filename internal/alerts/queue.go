package alerts

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"time"

	"notifier/internal/event"
	"notifier/internal/fair"
)

// queue has the known deliveries to one Provider and the state of its destination. The shard's loop owns it.
type queue struct {
	key event.ProviderKey
	// lines by object key.
	lines map[string]*line
	// waiting are the items in memory that are not busy, in order.
	waiting  []*item
	inflight int
	// entries counts the entries of all lines, and givenUp those that are to be given up. kib is the known size of the entries in KiB. The
	// namespace's share has the same counts (count).
	entries, givenUp int
	kib              int64
	share            *share
	// unknown counts the entries that their objects do not confirm, without those that are to be given up.
	unknown int
	// recallable has the lines with an entry to recall. recalls counts the entries being read, and recallAt is when to try again after an
	// error.
	recallable linesByRank
	recalls    int
	recallAt   time.Time
	// replaying says that dead letters are being published anew, and listing that they are being read before that. Until they are known,
	// nothing is sent: it might belong after one of them. listed is when that last began. requests counts the requests of owners that are
	// publishing some.
	replaying, listing bool
	listed             time.Time
	requests           int
	// touched marks the queue while a batch is taken in.
	touched bool
	// awaiting says that rescheduled deliveries await older events of the namespace.
	awaiting bool
	// owners are the Alerts of the entries, each once. unlearned counts the entries whose Alert is not known yet.
	owners    map[owner]*ownerCount
	unlearned int
	// told and toldUnlearned are the values of entries and unlearned last reported to the ledger.
	told, toldUnlearned int

	destinationState

	wakeAt    time.Time
	wakeIndex int
	// idleSince is when the last line was dropped, while there is none.
	idleSince time.Time
}

func newQueue(key event.ProviderKey, sh *share, now time.Time) *queue {
	return &queue{
		key: key, lines: map[string]*line{}, owners: map[owner]*ownerCount{}, share: sh,
		wakeIndex: fair.NotInHeap, idleSince: now,
	}
}

// place returns the delivery's entry in its line, both made if they are new.
func (q *queue) place(object string, order uint64, id string, now time.Time) (*line, *entry) {
	l := q.lines[object]
	if l == nil {
		l = &line{object: object, recallIndex: fair.NotInHeap}
		q.lines[object] = l
	}
	e, added := l.add(order, id)
	if added {
		e.back, e.rank = instantOf(now), rankInfo
		q.unlearned++
		q.count(1, 0, 0)
	}
	return l, e
}

// scheduled returns an entry's place on the schedule.
func (q *queue) scheduled(l *line, e *entry) event.Scheduled {
	return event.Scheduled{ID: e.id, Order: e.order, Namespace: q.key.Namespace, Provider: q.key.Provider, ObjectKey: l.object}
}

// count changes the numbers of entries and of those to be given up, and their size in KiB.
func (q *queue) count(entries, givenUp int, kib int64) {
	if q.entries == 0 && entries > 0 {
		q.share.providers.Add(1)
	}
	q.entries, q.givenUp, q.kib = q.entries+entries, q.givenUp+givenUp, q.kib+kib
	if q.entries == 0 && entries < 0 {
		q.share.providers.Add(-1)
	}
	q.share.deliveries.Add(int64(entries))
	q.share.givenUp.Add(int64(givenUp))
	q.share.kib.Add(kib)
}

// forget takes an entry out of its line for good. It must be away.
func (q *queue) forget(l *line, e *entry, now time.Time) {
	q.countUnknown(e, -1)
	givenUp := 0
	if e.givenUp != causeNone {
		givenUp = 1
	}
	q.count(-1, -givenUp, -int64(e.kib))
	if e.owner == nil {
		q.unlearned--
	} else {
		e.owner.pending--
	}
	l.remove(e)
	q.refresh(l)
	if len(l.entries) == 0 {
		delete(q.lines, l.object)
		if len(q.lines) == 0 {
			q.idleSince = now
		}
	}
}

// learn records the facts that only the delivery itself has.
func (q *queue) learn(l *line, e *entry, d *event.Delivery) {
	e.routed, e.replays = instantOf(d.Routed), replaysOf(d)
	if e.kib == 0 {
		e.kib = uint16(min(1+d.Event.Size()>>10, math.MaxUint16))
		q.count(0, 0, int64(e.kib))
	}
	q.countUnknown(e, -1)
	e.rank, e.bound = rankOf(d), d.ProviderUID != ""
	q.countUnknown(e, 1)
	q.hurry(l, e)
	o := owner{d.Alert, d.AlertUID}
	if e.owner != nil && e.owner.named == o {
		return
	}
	if e.owner == nil {
		q.unlearned--
	} else {
		e.owner.pending--
	}
	if q.owners[o] == nil {
		q.owners[o] = &ownerCount{named: o}
	}
	e.owner = q.owners[o]
	e.owner.pending++
}

func replaysOf(d *event.Delivery) uint16 { return uint16(min(d.Replays, math.MaxUint16)) }

// hurry makes the entries before an error in its line as urgent as the error, except those that their objects do not confirm.
func (q *queue) hurry(l *line, e *entry) {
	i, _ := l.find(e.order, e.id)
	if e.rank == rankInfo && i+1 < len(l.entries) && l.entries[i+1].rank == rankError {
		e.rank = rankError
	}
	if e.rank != rankError {
		return
	}
	for _, before := range slices.Backward(l.entries[:i]) {
		switch {
		case before.rank == rankError:
			return // and so are the entries before it
		case before.rank == rankUnknown:
		case before.item == nil || !q.dequeue(before.item):
			before.rank = rankError
		default:
			before.rank = rankError
			q.enqueue(before.item)
		}
	}
}

// release makes an entry absent again, expected back at a time or waiting on the schedule.
func (q *queue) release(it *item, back time.Time, onSchedule bool) {
	e := it.entry
	e.item, e.back, e.onSchedule, e.rescheduled, e.replays = nil, instantOf(back), onSchedule, true, replaysOf(&it.d)
	q.refresh(it.line)
}

// compareItems orders items by rank, then by place. The lines keep one object's items in their order regardless.
func compareItems(x, y *item) int {
	return cmp.Or(cmp.Compare(x.entry.rank, y.entry.rank), comparePlaces(x.entry.order, x.entry.id, y.entry.order, y.entry.id))
}

func (q *queue) enqueue(it *item) {
	i, _ := slices.BinarySearchFunc(q.waiting, it, compareItems)
	q.waiting = slices.Insert(q.waiting, i, it)
}

// dequeue reports whether the item was waiting.
func (q *queue) dequeue(it *item) bool {
	i, found := slices.BinarySearchFunc(q.waiting, it, compareItems)
	if found {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	return found
}

// next returns the first item that may be tried now. Without one it returns nil and the earliest time at which an item may be tried, zero
// if that is not known. While awaits returns true, rescheduled items must wait.
func (q *queue) next(now time.Time, awaits func() bool) (*item, time.Time) {
	var soonest time.Time
	q.awaiting = false
	for _, it := range q.waiting {
		if it.line.sending != nil {
			continue
		}
		// The head of its line precedes it, even a less urgent one.
		if it = it.line.head().item; it == nil || it.busy {
			continue
		}
		if it.due.After(now) {
			soonest = earlier(soonest, it.due)
			continue
		}
		if it.d.Reschedules == 0 || !q.awaiting && !awaits() {
			return it, time.Time{}
		}
		q.awaiting = true
	}
	return nil, soonest
}

// last returns the waiting item to put back first: the last of those behind an absent head, else the last of all.
func (q *queue) last() *item {
	for _, it := range slices.Backward(q.waiting) {
		if it.line.head().item == nil {
			return it
		}
	}
	return q.waiting[len(q.waiting)-1]
}

func later(t, u time.Time) time.Time {
	if u.After(t) {
		return u
	}
	return t
}

// wakes are the queues by their next wake time, the earliest first. A queue has at most one time.
type wakes struct{ fair.Heap[*queue] }

// Before implements fair.HeapItem, for wakes.
func (q *queue) Before(other *queue) bool { return q.wakeAt.Before(other.wakeAt) }

// Index implements fair.HeapItem.
func (q *queue) Index() *int { return &q.wakeIndex }

// set has q woken at the time given, or earlier if an earlier time was set before.
func (w *wakes) set(q *queue, at time.Time) {
	switch {
	case q.wakeIndex == fair.NotInHeap:
		q.wakeAt = at
		heap.Push(w, q)
	case at.Before(q.wakeAt):
		q.wakeAt = at
		heap.Fix(w, q.wakeIndex)
	}
}

// due removes and returns a queue whose time has come, or nil.
func (w *wakes) due(now time.Time) *queue {
	if w.Len() == 0 || w.Heap[0].wakeAt.After(now) {
		return nil
	}
	return heap.Pop(w).(*queue)
}

// drop removes q.
func (w *wakes) drop(q *queue) {
	if q.wakeIndex != fair.NotInHeap {
		heap.Remove(w, q.wakeIndex)
	}
}
