package fair

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
)

// Limiters are token buckets by key, with one rate and burst, for a bounded number of keys. A new key beyond the bound replaces the
// key that was used longest ago. A forgotten key that is used again has a full bucket. So keys from outside cost bounded memory,
// and a key is never refused because of others.
type Limiters[K comparable] struct {
	limit rate.Limit
	burst int

	mu   sync.Mutex
	keys *simplelru.LRU[K, *rate.Limiter]
}

// NewLimiters returns limiters of limit events a second and burst at once, for at most size keys. A limit of rate.Inf allows
// everything and remembers nothing.
func NewLimiters[K comparable](limit rate.Limit, burst, size int) *Limiters[K] {
	return &Limiters[K]{limit: limit, burst: burst, keys: NewLRU[K, *rate.Limiter](size)}
}

// Allow takes a token of the key's bucket, and reports whether it had one.
func (l *Limiters[K]) Allow(key K) bool { return l.AllowN(key, 1) }

// AllowN takes n tokens of the key's bucket, all or none, and reports whether it had as many.
func (l *Limiters[K]) AllowN(key K, n int) bool {
	return l.limit == rate.Inf || l.of(key).AllowN(time.Now(), n)
}

// Take takes a token of the key's bucket, and returns a function that gives it back, to be called once at most. It returns nil if the bucket
// is empty.
func (l *Limiters[K]) Take(key K, now time.Time) (giveBack func()) {
	limiter := l.of(key)
	if !limiter.AllowN(now, 1) {
		return nil
	}
	// A cancelled Reservation gives back less, or nothing, if another token was taken since.
	return func() { limiter.AllowN(time.Now(), -1) }
}

// Len returns the number of keys that have a bucket.
func (l *Limiters[K]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.keys.Len()
}

// of returns the key's bucket, a full one for an unknown key.
func (l *Limiters[K]) of(key K) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter, known := l.keys.Get(key)
	if !known {
		limiter = rate.NewLimiter(l.limit, l.burst)
		l.keys.Add(key, limiter)
	}
	return limiter
}
