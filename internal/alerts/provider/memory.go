package provider

import (
	"runtime"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"notifier/internal/fair"
)

// Bounds on what Senders remember between sends, some hundred bytes an entry: a tenant can make any number of Providers, and one event can
// be for all of them.
const (
	// memoryPart is the number of entries that each Memory has in any case, and by which it grows.
	memoryPart = 16
	// memoryParts is the number of further parts for the Senders of one namespace, and memoryTotal that for those of all namespaces, beyond
	// memoryReserve for each.
	memoryParts   = 1024
	memoryTotal   = 8192
	memoryReserve = 32
)

// memories are the places of the parts by which Memories have grown.
var memories = fair.NewCapacities[string](fair.NewCapacity(memoryTotal), memoryParts, memoryReserve)

// Memory is a map that forgets the entry which was used longest ago. It grows part by part up to its bound, while its namespace has places
// for more parts. Its places are released when it is garbage, since a replaced Sender may still have sends under way. It is not safe for
// concurrent use.
type Memory[K comparable, V any] struct {
	*simplelru.LRU[K, V]
	namespace  string
	size, most int
	parts      *parts
}

// NewMemory returns an empty Memory of at most that many entries, for a Provider of a namespace.
func NewMemory[K comparable, V any](namespace string, most int) *Memory[K, V] {
	size := min(memoryPart, most)
	m := &Memory[K, V]{LRU: fair.NewLRU[K, V](size), namespace: namespace, size: size, most: most, parts: new(parts)}
	runtime.AddCleanup(m, (*parts).release, m.parts)
	return m
}

// Add adds an entry, or replaces the one of its key.
func (m *Memory[K, V]) Add(key K, value V) {
	if m.Len() == m.size && m.size < m.most && !m.Contains(key) && m.parts.take(m.namespace) {
		m.size = min(m.size+memoryPart, m.most)
		m.Resize(m.size)
	}
	m.LRU.Add(key, value)
}

// parts are the places of the parts of one Memory.
type parts struct{ places []fair.KeyUse[string] }

// take takes one more place, and reports whether there was one.
func (p *parts) take(namespace string) bool {
	place, ok := memories.TryAcquire(namespace, 1)
	if ok {
		p.places = append(p.places, place)
	}
	return ok
}

func (p *parts) release() {
	for i := range p.places {
		p.places[i].Release()
	}
}
