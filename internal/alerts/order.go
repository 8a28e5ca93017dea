package alerts

import (
	"slices"
	"strings"
	"sync"
	"time"

	"notifier/internal/event"
)

// item is a delivery that is held in memory. The loop owns it, but for d while busy: then the task that works on it does.
type item struct {
	d     event.Delivery
	acker event.Acker
	// twins are further messages with the same delivery, which come to be when a message was acknowledged and the bus lost the
	// word of it. They share the fate of the first, which is the one that was on the schedule most often.
	twins []event.Message[event.Delivery]
	queue *queue
	line  *line
	entry *entry
	// due is when the item may be tried, zero at once.
	due time.Time
	// busy says that a task works on the item, sending that the task is a send, which keeps the line busy.
	busy, sending bool
	// told says that the missing or unready Provider was reported for this delivery.
	told bool
	// recalled says that the message is still on the schedule, so that the item goes back there without a write.
	recalled bool
	// unsent says that the delivery is known not to have been sent before, so that the history need not be asked.
	unsent bool
	// direct says that the acker is that of the event, which is held since taken.
	direct bool
	taken  time.Time

	// mu guards d while the item is sent, storing, which says that the outcome is being stored, and spilled, which is closed when a copy is
	// on the schedule.
	mu      sync.Mutex
	storing bool
	spilled chan struct{}
}

// bytes is about what the item's event takes in memory. It does not change.
func (it *item) bytes() int64 { return sizeOf(&it.d) }

// sizeOf is about what a delivery takes in memory, or on the bus.
func sizeOf(d *event.Delivery) int64 {
	const rest = 1 << 10
	n := rest + len(d.Event.Message)
	for key, value := range d.Event.Metadata {
		n += len(key) + len(value)
	}
	return int64(n)
}

// fresh reports that nobody can have sent the delivery before: it was neither handed out before nor tried.
func (it *item) fresh() bool { return !it.d.Recheck && it.d.Reschedules == 0 && it.d.Attempts == 0 }

// owner is the Alert that asked for deliveries.
type owner struct{ alert, uid string }

// waiter is an owner that has deliveries in a queue, which share it, and how many: pending, of which the ledger was told.
type waiter struct {
	named         owner
	pending, told int
}

// instant is a time in nanoseconds since 1970, zero for none. It takes a third of the memory of a time.Time.
type instant int64

func instantOf(t time.Time) instant {
	if t.IsZero() {
		return 0
	}
	return instant(t.UnixNano())
}

func (i instant) time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(i))
}

func (i instant) add(d time.Duration) instant { return i + instant(d) }

// sub returns how long before i the other was, which is decades where the other is none.
func (i instant) sub(other instant) time.Duration { return time.Duration(i - other) }

// entry is a delivery's place in a line, whether it is held or away. There may be very many, so it is as small as it can be.
type entry struct {
	order uint64
	id    string
	// item is nil while the delivery is away: on the schedule, or on the bus with nobody.
	item *item
	// routed is when the delivery came to be, none while nobody has seen it here, and owner the Alert, nil until then.
	routed instant
	owner  *waiter
	// back is when it is expected back while it is away, unless it waits on the schedule.
	back instant
	// missing counts the looks at the bus in a row that did not find it.
	missing int8
	// onSchedule says that it is on the schedule until its lifetime ends, to be recalled as soon as there is room for it.
	onSchedule bool
	// recalling says that it is being read.
	recalling bool
	// givenUp says that it is to be given up once it is read, and why.
	givenUp cause
	// rank is what it is sent by; until it is known, that of most. What stands before an error is as urgent.
	rank rank
	// bound is true when the Provider existed as the event was routed.
	bound bool
	// unsent is the item's while it is away.
	unsent bool
	// rescheduled says that the schedule was given it. If another message brings the delivery, that copy is left there.
	rescheduled bool
	// kib is the size of the event in KiB, zero while nobody has seen it here.
	kib uint16
}

// rank says which of the deliveries about different objects are sent first, the least rank.
type rank int8

const (
	rankError rank = iota
	rankInfo
	// rankUnknown is that of an event that its object does not bear out (Delivery.Known): anyone may have posted it (invariant E9).
	rankUnknown
)

func rankOf(d *event.Delivery) rank {
	switch {
	case !d.Known:
		return rankUnknown
	case d.Event.Severity == event.SeverityError:
		return rankError
	}
	return rankInfo
}

// overdueAfter is how long after its time an absent delivery is waited for before the bus is asked about it, seenFor how long the answer
// that it is there counts.
const (
	overdueAfter = 10 * time.Second
	seenFor      = time.Minute
)

// overdue reports whether an absent delivery should have come back.
func (e *entry) overdue(now instant) bool {
	return e.item == nil && !e.onSchedule && !e.recalling && now.sub(e.back) > overdueAfter
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

// before reports whether the entry's event is older than another's.
func (e *entry) before(other *entry) bool {
	return comparePlaces(e.order, e.id, other.order, other.id) < 0
}

// line is what is known of one object's deliveries to one Provider, in the order in which they must be sent (invariant E4).
// Only its head may be sent, and nothing while busy. Two Alerts with one Provider have the same order in it, told apart by ID.
type line struct {
	object  string
	entries []*entry
	// busy is set from the start of a send until its outcome is on the bus.
	busy bool
	// next is the entry to recall, nil if there is none now, and place where the line stands among its queue's recallable lines.
	next  *entry
	place int
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
