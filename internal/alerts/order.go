package alerts

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"notifier/internal/event"
)

// item is a delivery in memory. The loop owns it; while it is busy, the task that works on it owns d.
type item struct {
	d     event.Delivery
	acker event.Acker
	// twins are duplicate messages of the same delivery. They arise when the bus lost the acknowledgement of a message. They get the outcome
	// of the first, which is the one rescheduled most often.
	twins []event.Message[event.Delivery]
	queue *queue
	line  *line
	entry *entry
	// due is when the item may be tried, zero at once.
	due time.Time
	// busy says that a task works on the item.
	busy bool
	// recalled says that the message is still on the schedule, so that the item returns there without a write.
	recalled bool
	// direct says that the acker is that of the event, which the delivery keeps open since taken. term is that of the last router that
	// dispatched it.
	direct bool
	term   int
	taken  time.Time

	// mu protects d while the item is sent, and the next two fields. storing says that the outcome is being stored. spilled is closed when a
	// copy is on the schedule.
	mu      sync.Mutex
	storing bool
	spilled chan struct{}
}

// bytes returns about how many bytes the item takes in memory.
func (it *item) bytes() int64 { return int64(it.d.Event.Size()) }

// fresh reports whether the delivery cannot have been sent before: it was neither handed out before nor tried.
func (it *item) fresh() bool { return !it.d.Recheck && it.d.Reschedules == 0 && it.d.Attempts == 0 }

// owner is the Alert that asked for deliveries.
type owner struct{ alert, uid string }

// ownerCount counts an owner's deliveries in a queue: pending is their number, and told the number last reported to the ledger.
type ownerCount struct {
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

// sub returns i minus other, which is decades if other is none.
func (i instant) sub(other instant) time.Duration { return time.Duration(i - other) }

// entry is a delivery's place in a line, whether the delivery is in memory or away. It is small because there may be very many.
type entry struct {
	order uint64
	id    string
	// item is nil while the delivery is away: on the schedule, or on the bus without an owner.
	item *item
	// routed is when the delivery was routed, none until it was read here. owner is its Alert, nil until then.
	routed instant
	owner  *ownerCount
	// back is when an absent delivery is expected back, unless it waits on the schedule.
	back instant
	// missing counts the looks at the bus in a row that did not find the delivery.
	missing int8
	// onSchedule says that the delivery is on the schedule, to be recalled as soon as the queue has space for it.
	onSchedule bool
	// recalling says that the delivery is being read.
	recalling bool
	// givenUp is the cause for which the delivery is to be given up once it is read.
	givenUp cause
	// rank is the delivery's rank for sending, rankInfo until it is known. An entry before an error in its line is as urgent as the error.
	rank rank
	// bound says that the Provider existed when the event was routed.
	bound bool
	// unsent says that the delivery was not sent before, so that the history need not be read.
	unsent bool
	// rescheduled says that the delivery was put on the schedule. If another message delivers it, a copy may still be there.
	rescheduled bool
	// kib is the size of the event in KiB, zero until the delivery was read here. replays is the number of its replays then, both at most 65,535.
	kib, replays uint16
	// taken counts how often the delivery was taken into memory, modulo 65,536.
	taken uint16
}

// rank orders deliveries about different objects: the least rank is sent first.
type rank int8

const (
	rankError rank = iota
	rankInfo
	// rankUnknown is the rank of an event that its object does not confirm (Delivery.Known): anyone may have posted it (invariant E9).
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

// overdueAfter is how long an absent delivery may be late before it is looked up on the bus. seenFor is for how long a find there counts.
const (
	overdueAfter = 10 * time.Second
	seenFor      = time.Minute
)

// overdue reports whether an absent delivery should have come back.
func (e *entry) overdue(now instant) bool {
	return e.item == nil && !e.onSchedule && !e.recalling && now.sub(e.back) > overdueAfter
}

func comparePlaces(order uint64, id string, otherOrder uint64, otherID string) int {
	if c := cmp.Compare(order, otherOrder); c != 0 {
		return c
	}
	return cmp.Compare(id, otherID)
}

// before reports whether the entry's event is older than another's.
func (e *entry) before(other *entry) bool {
	return comparePlaces(e.order, e.id, other.order, other.id) < 0
}

// line has the known deliveries of one object to one Provider, in the order in which they must be sent (invariant E4). Only its head may
// be sent, and none during a send. Deliveries of two Alerts with one Provider have the same order and differ by ID.
type line struct {
	object  string
	entries []*entry
	// sending is the item that is being sent, from the start until the outcome is on the bus.
	sending *item
	// next is the entry to recall, nil if there is none now. rank and recallIndex are its place among its queue's recallable lines.
	next        *entry
	rank        rank
	recallIndex int
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

// has reports whether an entry is in the line: its delivery may have got another one since.
func (l *line) has(e *entry) bool {
	i, found := l.find(e.order, e.id)
	return found && l.entries[i] == e
}
