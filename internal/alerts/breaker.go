package alerts

import "time"

const (
	// breakerTrips is how many retryable failures in a row open a breaker.
	breakerTrips = 5
	firstOpen    = 5 * time.Second
	// longestOpen, with jitter, keeps the promise of a probe within 30 seconds.
	longestOpen = 25 * time.Second
)

// breaker keeps a destination that fails from being sent to. While it is open, one probe at a time is let through, each
// after a pause that doubles up to longestOpen; the first success closes it. The zero value is closed.
type breaker struct {
	failures int
	opened   int // how often in a row; zero while closed
	until    time.Time
}

func (b *breaker) open() bool { return b.opened > 0 }

// concurrency is how many sends may be under way at a time.
func (b *breaker) concurrency(now time.Time) int {
	switch {
	case !b.open():
		return maxConcurrent
	case now.Before(b.until):
		return 0
	default:
		return 1
	}
}

// success says that the destination answered, and reports whether that closed the breaker.
func (b *breaker) success() bool {
	closed := b.open()
	*b = breaker{}
	return closed
}

// failure counts a retryable failure, and reports whether it opened the breaker.
func (b *breaker) failure(now time.Time) bool {
	b.failures++
	switch {
	case b.open() && now.Before(b.until):
		// A send from before it opened.
		return false
	case !b.open() && b.failures < breakerTrips:
		return false
	}
	b.opened++
	pause := min(firstOpen<<min(b.opened-1, 3), longestOpen)
	b.until = now.Add(jitter(pause))
	return b.opened == 1
}
