package fair

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
)

// Limiters are token buckets by key, of one rate and burst, for at most a number of keys. The key that was used longest ago is forgotten
// for a new one; when it comes back its bucket is full. So keys from outside cost bounded memory, and a key is never refused because of
// others.
type Limiters[K comparable] struct {
	limit rate.Limit
	burst int

	mu   sync.Mutex
	keys *simplelru.LRU[K, *rate.Limiter]
}

// NewLimiters returns limiters of limit events a second and burst at once, for at most size keys. A limit of rate.Inf allows everything
// and remembers nothing.
func NewLimiters[K comparable](limit rate.Limit, burst, size int) *Limiters[K] {
	keys, err := simplelru.NewLRU[K, *rate.Limiter](max(1, size), nil)
	if err != nil {
		panic(err) // it has no other fault than a size that is not positive
	}
	return &Limiters[K]{limit: limit, burst: burst, keys: keys}
}

// Allow takes a token of the key's bucket, and reports whether there was one.
func (l *Limiters[K]) Allow(key K) bool { return l.AllowN(key, 1) }

// AllowN takes n tokens of the key's bucket, all or none, and reports whether there were as many.
func (l *Limiters[K]) AllowN(key K, n int) bool {
	return l.limit == rate.Inf || l.of(key).AllowN(time.Now(), n)
}

// Take takes a token that can be given back: the reservation's CancelAt with the same time does so. It is nil when there was no token.
func (l *Limiters[K]) Take(key K, now time.Time) *rate.Reservation {
	taken := l.of(key).ReserveN(now, 1)
	if !taken.OK() || taken.DelayFrom(now) > 0 {
		taken.CancelAt(now)
		return nil
	}
	return taken
}

// Len returns for how many keys there is a bucket.
func (l *Limiters[K]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.keys.Len()
}

// of returns the key's bucket, a full one for a key that is not known.
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
