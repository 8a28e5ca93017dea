package reconcile

import (
	"sync"
	"time"

	"notifier/internal/reconcile/kube"
)

// times remembers a time for each object of a kind, until it is removed.
type times struct {
	mu sync.Mutex
	m  map[kube.Key]time.Time
}

func newTimes() *times { return &times{m: map[kube.Key]time.Time{}} }

func (t *times) get(k kube.Key) (time.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, ok := t.m[k]
	return at, ok
}

func (t *times) set(k kube.Key, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.m[k] = at
}

func (t *times) remove(k kube.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.m, k)
}
