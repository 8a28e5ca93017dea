package limit

import (
	"context"
	"slices"
	"sync"
	"time"
)

// slots bound concurrent work. A free slot is given to the waiter that was slow longest ago, or never, and among equals to the longest
// waiting. In order of arrival, a flood's slow filters would be served before the large documents of other namespaces.
type slots struct {
	mu      sync.Mutex
	free    int
	waiting []*waiter // in the order of arrival
}

type waiter struct {
	slow  time.Time
	ready chan struct{} // closed with the place given
}

// take takes a slot for work that was last slow at that time, and reports whether one was free before ctx ended.
func (l *slots) take(ctx context.Context, slow time.Time) bool {
	l.mu.Lock()
	if l.free > 0 {
		l.free--
		l.mu.Unlock()
		return true
	}
	w := &waiter{slow, make(chan struct{})}
	l.waiting = append(l.waiting, w)
	l.mu.Unlock()
	select {
	case <-w.ready:
		return true
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, w)
	if i < 0 {
		return true // a place was given at the same moment
	}
	l.waiting = slices.Delete(l.waiting, i, i+1)
	return false
}

// give releases a place, to the next waiter if there is one.
func (l *slots) give() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.free++
		return
	}
	next := 0
	for i, w := range l.waiting {
		if w.slow.Before(l.waiting[next].slow) {
			next = i
		}
	}
	close(l.waiting[next].ready)
	l.waiting = slices.Delete(l.waiting, next, next+1)
}
