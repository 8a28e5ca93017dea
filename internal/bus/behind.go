package bus

import (
	"sync"

	"notifier/internal/event"
)

// behind counts the events that were in the stream as the term began, those up to last, and are not yet handled.
type behind struct {
	last uint64
	mu   sync.Mutex
	// unhandled counts those that were handed out, by namespace. all says that all of them were.
	unhandled map[string]int
	all       bool
}

// of reports whether there are such events of a namespace, or may be.
func (b *behind) of(namespace string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.all || b.unhandled[namespace] > 0
}

func (b *behind) handedOut(namespace string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unhandled[namespace]++
}

func (b *behind) allHandedOut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = true
}

// handled reports whether a namespace has caught up with this batch.
func (b *behind) handled(batch []event.Message[*event.Record]) (caughtUp bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range batch {
		if m.Seq > b.last {
			continue
		}
		namespace := m.Value.Event.InvolvedObject.Namespace
		if b.unhandled[namespace]--; b.unhandled[namespace] == 0 {
			delete(b.unhandled, namespace)
			caughtUp = b.all
		}
	}
	return caughtUp
}
