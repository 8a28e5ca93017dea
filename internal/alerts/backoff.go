package alerts

import (
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
	// lifetime is how long a delivery is tried.
	lifetime = 24 * time.Hour
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

// retryAt is when a delivery whose Attempts-th attempt has failed is tried again.
func retryAt(d *event.Delivery, retryAfter time.Duration, now time.Time) time.Time {
	gap := jitter(retryGap(d.Attempts, now.Sub(d.FirstAttempt)))
	if asked := clampRetryAfter(retryAfter); asked > gap {
		// Never early, since the destination counts that against its caller.
		gap = asked + time.Duration(rand.Int64N(int64(time.Second)))
	}
	at := now.Add(gap)
	if last := expiry(d); at.After(last) {
		at = last
	}
	return at
}

func clampRetryAfter(d time.Duration) time.Duration { return max(0, min(d, maxRetryAfter)) }

// expiry is when a delivery ends as a dead letter if it could not be sent.
func expiry(d *event.Delivery) time.Time {
	if d.FirstAttempt.IsZero() {
		return d.Routed.Add(lifetime)
	}
	return d.FirstAttempt.Add(lifetime)
}
