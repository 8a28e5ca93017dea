// Package brief keeps answers for a short time: for a bounded number of keys, each until a time of its own. Beyond the bound, a new
// key replaces the key that was used longest ago.
package brief

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"notifier/internal/fair"
)

// Answers are values by key. They can be used by many goroutines at once.
type Answers[K comparable, V any] struct {
	mu   sync.Mutex
	kept *simplelru.LRU[K, answer[V]]
}

type answer[V any] struct {
	value V
	until time.Time
}

// New returns answers for at most size keys.
func New[K comparable, V any](size int) *Answers[K, V] {
	return &Answers[K, V]{kept: fair.NewLRU[K, answer[V]](size)}
}

// Get returns the answer of a key, if there is one and it has not expired.
func (a *Answers[K, V]) Get(key K) (value V, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found, ok := a.kept.Get(key)
	if !ok || !time.Now().Before(found.until) {
		return value, false
	}
	return found.value, true
}

// Had reports whether a key has an answer, expired or not.
func (a *Answers[K, V]) Had(key K) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.kept.Contains(key)
}

// Put keeps an answer until a time.
func (a *Answers[K, V]) Put(key K, value V, until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kept.Add(key, answer[V]{value, until})
}

// Forget removes the answer of a key.
func (a *Answers[K, V]) Forget(key K) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kept.Remove(key)
}
