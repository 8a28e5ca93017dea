package alerts

import (
	"fmt"
	"math/rand/v2"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// The times at which failed deliveries are tried again.
const (
	firstGap = 2 * time.Second
	// steadyGap, with jitter, is at most a minute.
	steadyGap = 50 * time.Second
	// slowAfter is the age from which gaps grow beyond steadyGap, by an eighth of the time since. slowestGap is the longest gap.
	slowAfter  = time.Hour
	slowestGap = 500 * time.Second
	// maxRetryAfter clamps a destination's Retry-After: it is outside input, and a wrong number must not silence a tenant. maxPeriod clamps
	// the period of a rate limit, which an API names in its own way and counts a request within it against its caller.
	maxRetryAfter = 5 * time.Minute
	maxPeriod     = provider.MaxRetryAfter
	jitterShare   = 0.2
	// maxPanics is the attempt at which a Sender's panic becomes a permanent failure.
	maxPanics = 3
)

// retryGap returns the time from the n-th failed attempt to the next, without jitter. n counts from one; age is the time since the first
// attempt.
func retryGap(n int, age time.Duration) time.Duration {
	if age >= slowAfter {
		return min(steadyGap+(age-slowAfter)/8, slowestGap)
	}
	if n > 5 {
		return steadyGap
	}
	return firstGap << max(0, n-1)
}

// jitter spreads d over ±20 %, so that deliveries that failed together are tried at different times.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 - jitterShare + 2*jitterShare*rand.Float64()))
}

// DefaultMaxAge is how long a delivery is tried unless an administrator chooses less.
const DefaultMaxAge = 24 * time.Hour

// retryAt returns when to try a delivery again after its Attempts-th attempt failed, last at the latest.
func retryAt(d *event.Delivery, retryAfter time.Duration, now, last time.Time) time.Time {
	gap := jitter(retryGap(d.Attempts, now.Sub(d.FirstAttempt)))
	if asked := clampRetryAfter(retryAfter); asked > gap {
		// The retry is never early, since the destination counts that against its caller.
		gap = asked + time.Duration(rand.Int64N(int64(time.Second)))
	}
	return earlier(now.Add(gap), last)
}

func clampRetryAfter(d time.Duration) time.Duration { return max(0, min(d, maxRetryAfter)) }

// pauseOf returns how long nothing is sent to a destination after a failure. The failed delivery itself comes back from the schedule after
// retryAt and waits in the queue for the rest of a longer period: a change of the Provider ends that wait.
func pauseOf(e *event.Error) time.Duration {
	return max(clampRetryAfter(e.RetryAfter), min(e.Period, maxPeriod))
}

// expiry returns when an unsent delivery ends as a dead letter: MaxAge after its first attempt. Without an attempt it is MaxAge after it
// was routed or last replayed.
func (o *DelivererOptions) expiry(d *event.Delivery) time.Time {
	began := d.FirstAttempt
	if began.IsZero() {
		began = later(d.Routed, d.Replayed)
	}
	return began.Add(o.MaxAge)
}

// expired returns the reason of a delivery that was not sent in its lifetime, with the reason of its last failure, if there is one.
func (o *DelivererOptions) expired(last string) string {
	reason := "expired: not delivered within " + inWords(o.MaxAge)
	if last != "" {
		reason += ", last: " + last
	}
	return reason
}

// inWords returns a duration in the largest unit that divides it.
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
