package reconcile

import (
	"sync"

	"notifier/internal/reconcile/kube"
)

// remembered has one value for each object of a kind, until it is removed.
type remembered[T any] struct {
	mu sync.Mutex
	m  map[kube.Key]T
}

func newRemembered[T any]() *remembered[T] { return &remembered[T]{m: map[kube.Key]T{}} }

func (r *remembered[T]) get(k kube.Key) (T, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	value, ok := r.m[k]
	return value, ok
}

func (r *remembered[T]) set(k kube.Key, value T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.m[k] = value
}

func (r *remembered[T]) remove(k kube.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.m, k)
}
