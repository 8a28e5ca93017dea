package alerts

import (
	"slices"
	"time"

	"golang.org/x/time/rate"

	"notifier/internal/event"
)

// Bounds on one Provider's queue.
const (
	// maxConcurrent is how many sends to one destination are under way at a time.
	maxConcurrent = 8
	// A queue holds what it will send within horizon, but at least minDepth and at most maxDepth deliveries; unknownDepth until
	// the destination's pace is known, and badDepth, from which to probe, while it cannot be sent to.
	horizon      = 2 * time.Second
	minDepth     = 64
	unknownDepth = 256
	maxDepth     = 1024
	badDepth     = 8
	// slowPace, in deliveries a second, is assumed where nothing is known.
	slowPace = 20.0
	// earliestSlot keeps the schedule from being used as a busy loop, farthestSlot a wrong estimate from doing much harm.
	earliestSlot = time.Second
	farthestSlot = 10 * time.Minute
)

// queue is everything known of the deliveries to one Provider. The shard's loop owns it.
type queue struct {
	key destinationKey
	// lines by object key.
	lines map[string]*line
	// waiting are the items that are held and not busy, in order.
	waiting  []*item
	inflight int
	// away counts the entries that are not held.
	away int

	// current is the destination as last seen.
	current *Destination
	limiter *rate.Limiter // nil without a limit
	breaker breaker
	// notBefore holds everything back: the destination asked for it.
	notBefore time.Time
	// unusable says that the Provider does not exist or is not ready.
	unusable bool
	// pace is the smoothed duration of a send, zero until one has ended.
	pace time.Duration

	health health

	// lastSlot is the farthest time on the schedule that was given out.
	lastSlot time.Time

	wakeAt    time.Time
	wakeIndex int
	// idleSince is when the last line went, while there is none.
	idleSince time.Time
}

func newQueue(key destinationKey, now time.Time) *queue {
	return &queue{key: key, lines: map[string]*line{}, wakeIndex: notWaking, idleSince: now}
}

// place returns the delivery's entry in its line, both made if they are new.
func (q *queue) place(object string, order uint64, id string, now time.Time) (*line, *entry, bool) {
	l := q.lines[object]
	if l == nil {
		l = &line{object: object}
		q.lines[object] = l
	}
	e, added := l.add(order, id)
	if added {
		e.since = now
		q.away++
	}
	return l, e, added
}

// forget takes an entry out of its line for good. It must be away.
func (q *queue) forget(l *line, e *entry, now time.Time) {
	q.away--
	l.remove(e)
	if len(l.entries) == 0 {
		delete(q.lines, l.object)
		if len(q.lines) == 0 {
			q.idleSince = now
		}
	}
}

// hold makes an item of an entry that was away.
func (q *queue) hold(l *line, e *entry, d event.Delivery, s event.Settler) *item {
	it := &item{d: d, settler: s, queue: q, line: l, entry: e}
	e.item, e.until, e.seen, e.missing = it, time.Time{}, time.Time{}, 0
	e.routed = d.Routed
	q.away--
	return it
}

// oldest returns when the delivery that has waited longest came to be, or t if that is earlier or there is none.
func (q *queue) oldest(t time.Time) time.Time {
	for _, l := range q.lines {
		for _, e := range l.entries {
			if !e.routed.IsZero() && (t.IsZero() || e.routed.Before(t)) {
				t = e.routed
			}
		}
	}
	return t
}

// release makes an entry absent again.
func (q *queue) release(it *item, now, until time.Time) {
	it.entry.item, it.entry.since, it.entry.until = nil, now, until
	q.away++
}

func compareItems(x, y *item) int {
	return comparePlaces(x.entry.order, x.entry.id, y.entry.order, y.entry.id)
}

func (q *queue) enqueue(it *item) {
	i, _ := slices.BinarySearchFunc(q.waiting, it, compareItems)
	q.waiting = slices.Insert(q.waiting, i, it)
}

func (q *queue) dequeue(it *item) {
	if i, found := slices.BinarySearchFunc(q.waiting, it, compareItems); found {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
}

// next returns the first item that may be tried now, or nil and the time at which one may be, zero if that is not known.
func (q *queue) next(now time.Time) (*item, time.Time) {
	var soonest time.Time
	for _, it := range q.waiting {
		if it.line.busy || it.line.head() != it.entry {
			continue
		}
		if !it.due.After(now) {
			return it, time.Time{}
		}
		if soonest.IsZero() || it.due.Before(soonest) {
			soonest = it.due
		}
	}
	return nil, soonest
}

// last returns the waiting item that can best be spared: the last of those behind an absent head, else the last of all.
func (q *queue) last() *item {
	for _, it := range slices.Backward(q.waiting) {
		if it.line.head().item == nil {
			return it
		}
	}
	return q.waiting[len(q.waiting)-1]
}

// opensAt is the time before which nothing is sent; it is not after now when the queue is open.
func (q *queue) opensAt() time.Time {
	if q.breaker.open() {
		return later(q.notBefore, q.breaker.until)
	}
	return q.notBefore
}

// bad reports that the destination cannot be sent to for now.
func (q *queue) bad(now time.Time) bool {
	return q.unusable || q.breaker.open() || q.notBefore.Sub(now) > horizon
}

// speed is how many deliveries a second the destination is expected to take.
func (q *queue) speed() float64 {
	speed := slowPace
	if q.pace > 0 {
		speed = maxConcurrent / q.pace.Seconds()
	}
	if q.limiter != nil {
		speed = min(speed, float64(q.limiter.Limit()))
	}
	return max(speed, 0.001)
}

// depth is how many items may wait in memory.
func (q *queue) depth(now time.Time) int {
	switch {
	case q.bad(now):
		return badDepth
	case q.pace == 0 && q.limiter == nil:
		return unknownDepth
	}
	return max(minDepth, min(int(q.speed()*horizon.Seconds()), maxDepth))
}

// slot is the time for which an item goes back to the schedule: when its turn is expected, after its line's head. Each slot is
// given to one item, from the time on at which half of what waits in memory will be gone.
func (q *queue) slot(it *item, now time.Time) time.Time {
	head := it.line.head()
	absent := head.item == nil && head != it.entry
	var at time.Time
	if q.bad(now) || absent && !head.until.After(now) {
		// Where a wait has no known end, each one is longer than the one before.
		at = later(now.Add(waitGap(&it.d, now)), q.opensAt())
	} else {
		one := time.Duration(float64(time.Second) / q.speed())
		at = later(later(now.Add(time.Duration(len(q.waiting)/2)*one), q.lastSlot.Add(one)), q.opensAt())
		if at.Sub(now) > farthestSlot {
			at = now.Add(jitter(farthestSlot))
		} else {
			q.lastSlot = at
		}
	}
	if absent {
		at = later(at, head.until)
	}
	return later(at, now.Add(earliestSlot))
}

func later(t, u time.Time) time.Time {
	if u.After(t) {
		return u
	}
	return t
}

// adopt takes over a destination's limit. One that was changed may have been mended, so an open breaker probes it at once.
func (q *queue) adopt(d *Destination, now time.Time) {
	q.unusable = false
	if q.current == d {
		return
	}
	if q.current != nil && q.breaker.open() {
		q.breaker.until = now
	}
	q.current = d
	switch {
	case !d.limited():
		q.limiter = nil
	case q.limiter == nil:
		q.limiter = rate.NewLimiter(d.Limit, max(1, d.Burst))
	default:
		q.limiter.SetLimitAt(now, d.Limit)
		q.limiter.SetBurstAt(now, max(1, d.Burst))
	}
}

// token takes a token of the limiter, or returns how long it takes until there is one.
func (q *queue) token(now time.Time) time.Duration {
	if q.limiter == nil || q.limiter.AllowN(now, 1) {
		return 0
	}
	missing := 1 - q.limiter.TokensAt(now)
	return max(time.Duration(missing/float64(q.limiter.Limit())*float64(time.Second)), time.Millisecond)
}

// measure smooths the duration of sends.
func (q *queue) measure(took time.Duration) {
	took = max(took, 100*time.Microsecond)
	if q.pace == 0 {
		q.pace = took
		return
	}
	q.pace += (took - q.pace) / 8
}
