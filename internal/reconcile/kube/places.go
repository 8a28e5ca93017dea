package kube

import "sync"

// places bound the keys of one namespace that are reconciled at once. Its further keys wait here, outside of the queue, in their order: a
// place that becomes free is for the first of them.
//
// A fair.Queue can hold a namespace, but this one is within client-go's, which looks at it again only when a key is added or done.
type places[K comparable] struct {
	each int

	mu         sync.Mutex
	namespaces map[string]*taken[K]
	// held has the keys that wait, and true for those that have a place and are in the queue again.
	held map[K]bool
}

// taken are the places of one namespace.
type taken[K comparable] struct {
	n int
	// waiting are the keys that wait, the first one first.
	waiting []K
}

func newPlaces[K comparable](each int) *places[K] {
	return &places[K]{each: each, namespaces: map[string]*taken[K]{}, held: map[K]bool{}}
}

// enter reports whether a key has a place. Otherwise the key waits: leave adds it to the queue again.
func (p *places[K]) enter(namespace string, k K) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	has, held := p.held[k]
	if has {
		delete(p.held, k)
		return true
	}
	t := p.namespaces[namespace]
	if t == nil {
		t = &taken[K]{}
		p.namespaces[namespace] = t
	}
	if t.n < p.each {
		t.n++
		return true
	}
	if !held {
		p.held[k] = false
		t.waiting = append(t.waiting, k)
	}
	return false
}

// leave gives a place to the key that has waited longest, for which it calls add, or back if none waits.
func (p *places[K]) leave(namespace string, add func(K)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.namespaces[namespace]
	if len(t.waiting) > 0 {
		next := t.waiting[0]
		t.waiting = t.waiting[1:]
		p.held[next] = true
		add(next)
		return
	}
	if t.n--; t.n == 0 {
		delete(p.namespaces, namespace)
	}
}

// waiting returns the number of keys that wait.
func (p *places[K]) waiting() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.namespaces {
		n += len(t.waiting)
	}
	return n
}
