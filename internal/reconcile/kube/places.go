package kube

import "sync"

// places bound the keys of one namespace that are reconciled at once. Its further keys wait here, outside of the queue.
type places[K comparable] struct {
	each int

	mu         sync.Mutex
	namespaces map[string]*taken[K]
	// waits has the keys that wait.
	waits map[K]bool
}

// taken are the places of one namespace.
type taken[K comparable] struct {
	n int
	// waiting are the keys that wait, the first one first.
	waiting []K
}

func newPlaces[K comparable](each int) *places[K] {
	return &places[K]{each: each, namespaces: map[string]*taken[K]{}, waits: map[K]bool{}}
}

// enter takes a place for a key and reports whether one is free. Otherwise the key waits: leave adds it to the queue again.
func (p *places[K]) enter(namespace string, k K) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.namespaces[namespace]
	if t == nil {
		t = &taken[K]{}
		p.namespaces[namespace] = t
	}
	if t.n < p.each {
		t.n++
		return true
	}
	if !p.waits[k] {
		p.waits[k] = true
		t.waiting = append(t.waiting, k)
	}
	return false
}

// leave gives a place back, and calls add with the key that has waited longest.
func (p *places[K]) leave(namespace string, add func(K)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.namespaces[namespace]
	t.n--
	switch {
	case len(t.waiting) > 0:
		next := t.waiting[0]
		t.waiting = t.waiting[1:]
		delete(p.waits, next)
		add(next)
	case t.n == 0:
		delete(p.namespaces, namespace)
	}
}

// waiting returns the number of keys that wait.
func (p *places[K]) waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waits)
}
