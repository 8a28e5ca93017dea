package alerts

import (
	"time"

	"golang.org/x/time/rate"

	"notifier/internal/event"
)

// Bounds on one Provider's queue.
const (
	// maxConcurrent is how many sends to one destination may be under way at a time.
	maxConcurrent = 8
	// A queue keeps in memory the deliveries that it will send within horizon, from minDepth to maxDepth of them. It keeps unknownDepth
	// until the destination's pace is known, and badDepth, for probes, while it cannot be sent to.
	horizon      = 2 * time.Second
	minDepth     = 64
	unknownDepth = 256
	maxDepth     = 1024
	badDepth     = 8
)

// destinationState is the state of a queue's destination: whether it can be sent to, and how fast.
type destinationState struct {
	// current is the destination as last seen.
	current *Destination
	limiter *rate.Limiter // nil without a limit
	breaker breaker
	// notBefore delays every send: the destination asked for it.
	notBefore time.Time
	// unusable says that the Provider does not exist or is not ready. absent is since when it does not exist.
	unusable bool
	absent   time.Time
	// pace is the smoothed duration of a send, zero until a send has ended.
	pace time.Duration
	// mended says that the Provider was changed. recovered says that it accepted a delivery after it had refused one (refused). Earlier dead
	// letters are then worth another try.
	mended, refused, recovered bool
	// health is that of the Provider with the UID healthOf, empty until it is known. With news the ledger does not have it yet.
	health   Health
	healthOf string
	news     bool
}

// setHealth records the health of a Provider, and whether it is news.
func (d *destinationState) setHealth(uid string, h Health) {
	d.news = d.news || d.health != h || d.healthOf != uid
	d.health, d.healthOf = h, uid
}

// attempted takes in the result of an attempt at a destination, nil for a success. It reports whether that opened the breaker.
func (d *destinationState) attempted(at *Destination, took time.Duration, failure *event.Error, now time.Time) (opened bool) {
	d.measure(took)
	switch {
	case failure == nil:
		d.recovered, d.refused = d.recovered || d.refused, false
		d.breaker = breaker{}
		d.setHealth(at.UID, Health{State: StateOK, Reason: ReasonDelivered, Message: "the last notification was accepted"})
	case failure.Class == event.Permanent:
		// A refusal is an answer: the destination works.
		d.refused = true
		d.breaker = breaker{}
		d.setHealth(at.UID, failing(at, failure, false))
	default:
		opened = d.breaker.failure(now)
		d.notBefore = later(d.notBefore, now.Add(pauseOf(failure)))
		d.setHealth(at.UID, failing(at, failure, d.breaker.open()))
	}
	return opened
}

// died takes in that a delivery has become a dead letter, after a failed attempt or, with nil, without one. The Provider may have been
// changed, or have accepted another delivery, while the letter was being written: those that were listed then were without it.
func (d *destinationState) died(of *event.Delivery, failure *event.Error) {
	d.mended = d.mended || d.changedSince(of)
	d.recovered = d.recovered || failure != nil && failure.Class == event.Permanent && !d.refused
}

// gone reports whether the Provider is gone for good.
func (d *destinationState) gone(now time.Time) bool {
	return !d.absent.IsZero() && now.Sub(d.absent) >= ownerGrace
}

// opensAt returns the time before which nothing is sent; it is not after now when the destination is open.
func (d *destinationState) opensAt() time.Time {
	if d.breaker.open() {
		return later(d.notBefore, d.breaker.until)
	}
	return d.notBefore
}

// closed reports whether nothing can be sent right now.
func (d *destinationState) closed(now time.Time) bool { return d.unusable || d.opensAt().After(now) }

// bad reports whether the destination cannot be sent to for now.
func (d *destinationState) bad(now time.Time) bool {
	return d.unusable || d.breaker.open() || d.notBefore.Sub(now) > horizon
}

// depth returns how many items may wait in memory.
func (d *destinationState) depth(now time.Time) int {
	switch {
	case d.bad(now):
		return badDepth
	case d.pace == 0 && d.limiter == nil:
		return unknownDepth
	}
	speed := maxConcurrent / d.pace.Seconds() // how many deliveries a second the destination is expected to accept; infinite while not known
	if d.limiter != nil {
		speed = min(speed, float64(d.limiter.Limit()))
	}
	return int(max(minDepth, min(speed*horizon.Seconds(), maxDepth)))
}

// adopt takes over a destination and its limit. A changed destination may have been mended, so an open breaker probes it at once. A wait
// that the destination asked for ends when the Provider's configuration changes, which adopt reports: it may be another account or host now.
func (d *destinationState) adopt(to *Destination, now time.Time) (changed bool) {
	d.unusable = false
	from := d.current
	if from == to {
		return false
	}
	d.current = to
	if from != nil && d.breaker.open() {
		d.breaker.until = now
	}
	if changed = from == nil || from.Version != to.Version; changed {
		d.notBefore, d.mended = time.Time{}, true
	}
	switch {
	case to.Limit <= 0 || to.Limit == rate.Inf:
		d.limiter = nil
	case d.limiter == nil:
		d.limiter = rate.NewLimiter(to.Limit, max(1, to.Burst))
	default:
		d.limiter.SetLimitAt(now, to.Limit)
		d.limiter.SetBurstAt(now, max(1, to.Burst))
	}
	return changed
}

// changedSince reports whether the Provider's configuration is another one than that under which a delivery was last attempted.
func (d *destinationState) changedSince(last *event.Delivery) bool {
	return d.current != nil && d.current.Version != last.Destination
}

// token takes a token of the limiter and returns zero, or returns the time until there is one.
func (d *destinationState) token(now time.Time) time.Duration {
	if d.limiter == nil || d.limiter.AllowN(now, 1) {
		return 0
	}
	missing := 1 - d.limiter.TokensAt(now)
	return max(time.Duration(missing/float64(d.limiter.Limit())*float64(time.Second)), time.Millisecond)
}

// measure adds the duration of a send to the smoothed pace.
func (d *destinationState) measure(took time.Duration) {
	if d.pace == 0 {
		d.pace = took
		return
	}
	d.pace += (took - d.pace) / 8
}
