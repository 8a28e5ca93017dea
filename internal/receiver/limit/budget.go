package limit

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Budget is a token bucket: Rate per second on average, Burst at once.
type Budget struct {
	Rate  float64
	Burst int
}

// Limiter returns the budget's token bucket, full. It always has a token when the budget is off.
func (b Budget) Limiter() *rate.Limiter { return rate.NewLimiter(b.limit(), b.Burst) }

func (b Budget) limit() rate.Limit {
	if b.Rate == 0 {
		return rate.Inf
	}
	return rate.Limit(b.Rate)
}

// Apply makes l follow the budget from now on. What was taken stays taken: the bucket is not refilled.
func (b Budget) Apply(l *rate.Limiter) {
	if l.Limit() != b.limit() || l.Burst() != b.Burst {
		l.SetLimit(b.limit())
		l.SetBurst(b.Burst)
	}
}

// Validate reports what makes the budget of this name unfit.
func (b Budget) Validate(name string) error {
	switch {
	case !(b.Rate >= 0) || math.IsInf(b.Rate, 1):
		return fmt.Errorf("%s budget has a rate that is none", name)
	case b.Burst < 0:
		return fmt.Errorf("%s budget is negative", name)
	case b.Rate > 0 && b.Burst == 0:
		return fmt.Errorf("%s budget has a rate and no burst, so that it would admit nothing", name)
	}
	return nil
}

// Within is the budget that is bounded by both.
func (b Budget) Within(ceiling Budget) Budget {
	switch {
	case b.Rate == 0:
		return ceiling
	case ceiling.Rate == 0:
		return b
	}
	return Budget{Rate: min(b.Rate, ceiling.Rate), Burst: min(b.Burst, ceiling.Burst)}
}

// RetryAfter is the Retry-After of an answer over the budget: the seconds until one token is back, at most a minute.
func (b Budget) RetryAfter() string {
	if b.Rate == 0 {
		return "1"
	}
	return strconv.Itoa(int(min(60, math.Ceil(1/b.Rate))))
}

// Limiters are token buckets by a key from outside, at most max of them. The key that was used longest ago is evicted; when it
// comes back it has a full bucket, so that eviction can only be generous: with more keys than max a budget bounds less, and
// nobody is refused because of others.
type Limiters[K comparable] struct {
	budget Budget
	max    int

	mu      sync.Mutex
	entries map[K]*bucket[K]
	// root closes the ring of buckets, from the latest used (root.next) to the earliest (root.prev).
	root bucket[K]
}

type bucket[K comparable] struct {
	key        K
	limiter    *rate.Limiter
	prev, next *bucket[K]
}

// NewLimiters returns limiters of a budget for each of at most max keys.
func NewLimiters[K comparable](b Budget, max int) *Limiters[K] {
	bs := &Limiters[K]{budget: b, max: max, entries: make(map[K]*bucket[K])}
	bs.root.prev, bs.root.next = &bs.root, &bs.root
	return bs
}

// Allow takes one token of key's bucket.
func (bs *Limiters[K]) Allow(key K, now time.Time) bool {
	return bs.budget.Rate == 0 || bs.limiter(key).AllowN(now, 1)
}

// Take takes one token of key's bucket, which can be given back. It returns nil when there is none.
func (bs *Limiters[K]) Take(key K, now time.Time) *rate.Reservation {
	taken := bs.limiter(key).ReserveN(now, 1)
	if taken.DelayFrom(now) > 0 {
		taken.CancelAt(now)
		return nil
	}
	return taken
}

func (bs *Limiters[K]) limiter(key K) *rate.Limiter {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	b := bs.entries[key]
	if b == nil {
		if len(bs.entries) >= bs.max {
			oldest := bs.root.prev
			oldest.unlink()
			delete(bs.entries, oldest.key)
		}
		b = &bucket[K]{key: key, limiter: bs.budget.Limiter()}
		bs.entries[key] = b
	} else {
		b.unlink()
	}
	b.prev, b.next = &bs.root, bs.root.next
	b.prev.next, b.next.prev = b, b
	return b.limiter
}

func (b *bucket[K]) unlink() { b.prev.next, b.next.prev = b.next, b.prev }

// len returns the number of keys that are held.
func (bs *Limiters[K]) len() int {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	return len(bs.entries)
}

// AddressKey is the client that an address stands for: an IPv4 address, or an IPv6 /64, since whoever has one address of a /64
// has all of them.
func AddressKey(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}
