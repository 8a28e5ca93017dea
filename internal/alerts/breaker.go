package alerts

import "time"

const (
	// breakerTrips is the number of retryable failures in a row that opens a breaker.
	breakerTrips = 5
	firstOpen    = 5 * time.Second
	// longestOpen, with jitter, keeps probes at most 30 seconds apart.
	longestOpen = 25 * time.Second
)

// breaker limits the sends to a destination that fails. While it is open it admits one probe at a time, each after a pause that doubles
// up to longestOpen. The first answer closes it. The zero value is closed.
type breaker struct {
	failures int
	opened   int // times in a row; zero while closed
	until    time.Time
}

func (b *breaker) open() bool { return b.opened > 0 }

// concurrency returns how many sends may be under way at a time, from until on.
func (b *breaker) concurrency() int {
	if b.open() {
		return 1
	}
	return maxConcurrent
}

// failure counts a retryable failure, and reports whether it opened the breaker.
func (b *breaker) failure(now time.Time) bool {
	b.failures++
	if now.Before(b.until) || b.failures < breakerTrips { // a send may have begun before the breaker opened
		return false
	}
	b.opened++
	pause := min(firstOpen<<min(b.opened-1, 3), longestOpen)
	b.until = now.Add(jitter(pause))
	return b.opened == 1
}
