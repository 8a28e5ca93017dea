package alerts

import (
	"slices"
	"strings"
	"time"

	"notifier/internal/event"
)

// item is a delivery that is held in memory. The loop owns it, but for d while busy: then the task that works on it does.
type item struct {
	d       event.Delivery
	settler event.Settler
	// twins are further messages with the same delivery, which come to be when a message was settled and the bus lost the
	// word of it. They share the fate of the first, which is the one that was on the schedule most often.
	twins []event.Held[event.Delivery]
	queue *queue
	line  *line
	entry *entry
	// due is when the item may be tried, zero at once.
	due time.Time
	// busy says that a task works on the item, sending that the task is a send, which keeps the line busy.
	busy, sending bool
	// told says that the missing or unready Provider was reported for this delivery.
	told bool
}

// bytes is about what the item's event takes in memory. It does not change.
func (it *item) bytes() int64 {
	const rest = 1 << 10
	n := rest + len(it.d.Event.Message)
	for key, value := range it.d.Event.Metadata {
		n += len(key) + len(value)
	}
	return int64(n)
}

// entry is a delivery's place in a line, whether it is held or away.
type entry struct {
	order uint64
	id    string
	// item is nil while the delivery is away: on the schedule, or on the bus with nobody.
	item *item
	// routed is when the delivery came to be, zero while nobody has seen it here.
	routed time.Time
	// since is when it went away, until when it is expected back; until is zero if that is not known.
	since, until time.Time
	// seen is when a look at the bus last found it there, missing counts the looks since that did not.
	seen    time.Time
	missing int
}

const (
	// overdueAfter is how long after its time an absent delivery is waited for before the bus is asked about it.
	overdueAfter = 10 * time.Second
	// seenFor is how long the answer that it is there counts.
	seenFor = time.Minute
)

// overdue reports whether an absent delivery should have come back.
func (e *entry) overdue(now time.Time) bool {
	expected := e.until
	if expected.IsZero() {
		expected = e.since
	}
	return e.item == nil && now.Sub(expected) > overdueAfter && now.Sub(e.seen) > seenFor
}

func comparePlaces(order uint64, id string, otherOrder uint64, otherID string) int {
	switch {
	case order < otherOrder:
		return -1
	case order > otherOrder:
		return 1
	}
	return strings.Compare(id, otherID)
}

// line is what is known of one object's deliveries to one Provider, in the order in which they must be sent (invariant E4).
// Only its head may be sent, and nothing while busy. Two Alerts with one Provider have the same order in it, told apart by ID.
type line struct {
	object  string
	entries []*entry
	// busy is set from the start of a send until its outcome is on the bus.
	busy bool
}

func (l *line) head() *entry { return l.entries[0] }

func (l *line) find(order uint64, id string) (int, bool) {
	return slices.BinarySearchFunc(l.entries, id, func(e *entry, id string) int {
		return comparePlaces(e.order, e.id, order, id)
	})
}

// add returns the delivery's place, and whether it is a new one.
func (l *line) add(order uint64, id string) (e *entry, added bool) {
	i, found := l.find(order, id)
	if found {
		return l.entries[i], false
	}
	e = &entry{order: order, id: id}
	l.entries = slices.Insert(l.entries, i, e)
	return e, true
}

func (l *line) remove(e *entry) {
	if i, found := l.find(e.order, e.id); found {
		l.entries = slices.Delete(l.entries, i, i+1)
	}
}
