package alerts

import (
	"fmt"
	"math/rand/v2"
	"time"

	"notifier/internal/event"
)

// When failed deliveries are tried again.
const (
	firstGap = 2 * time.Second
	// steadyGap, with jitter, is at most a minute.
	steadyGap = 50 * time.Second
	// slowAfter is when gaps begin to grow beyond steadyGap, by an eighth of the time since; slowestGap is where they end.
	slowAfter  = time.Hour
	slowestGap = 500 * time.Second
	// maxRetryAfter clamps what a destination may ask for: it is outside input, and a wrong number must not silence a tenant.
	maxRetryAfter = 5 * time.Minute
	jitterShare   = 0.2
	// maxPanics is the attempt at which a Sender's panic is no longer taken for bad luck.
	maxPanics = 3
)

// retryGap is the time from the n-th failed attempt to the next, without jitter; n counts from one, age is the time since the
// first attempt.
func retryGap(n int, age time.Duration) time.Duration {
	if age >= slowAfter {
		return min(steadyGap+(age-slowAfter)/8, slowestGap)
	}
	if n > 5 {
		return steadyGap
	}
	return firstGap << max(0, n-1)
}

// jitter spreads d over ±20 %, so that what failed together does not return together.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 - jitterShare + 2*jitterShare*rand.Float64()))
}

// DefaultMaxAge is how long a delivery is tried.
const DefaultMaxAge = 24 * time.Hour

// retryAt is when a delivery whose Attempts-th attempt has failed is tried again, last at the latest.
func retryAt(d *event.Delivery, retryAfter time.Duration, now, last time.Time) time.Time {
	gap := jitter(retryGap(d.Attempts, now.Sub(d.FirstAttempt)))
	if asked := clampRetryAfter(retryAfter); asked > gap {
		// Never early, since the destination counts that against its caller.
		gap = asked + time.Duration(rand.Int64N(int64(time.Second)))
	}
	at := now.Add(gap)
	if at.After(last) {
		at = last
	}
	return at
}

func clampRetryAfter(d time.Duration) time.Duration { return max(0, min(d, maxRetryAfter)) }

// expiry is when a delivery ends as a dead letter if it could not be sent: MaxAge after its first attempt, or without one after it was
// routed or last replayed.
func (o *DelivererOptions) expiry(d *event.Delivery) time.Time {
	began := d.FirstAttempt
	if began.IsZero() {
		began = later(d.Routed, d.Replayed)
	}
	return began.Add(o.MaxAge)
}

// expired is the reason of a delivery that could not be sent in its lifetime, with what its last attempt failed with, if anything.
func (o *DelivererOptions) expired(last string) string {
	reason := "expired: not delivered within " + inWords(o.MaxAge)
	if last != "" {
		reason += ", last: " + last
	}
	return reason
}

// inWords is a duration in its largest unit that leaves no rest.
func inWords(d time.Duration) string {
	for _, unit := range []struct {
		name string
		is   time.Duration
	}{{"hour", time.Hour}, {"minute", time.Minute}, {"second", time.Second}} {
		switch n := d / unit.is; {
		case d%unit.is != 0:
		case n == 1:
			return "1 " + unit.name
		default:
			return fmt.Sprintf("%d %ss", n, unit.name)
		}
	}
	return d.String()
}
