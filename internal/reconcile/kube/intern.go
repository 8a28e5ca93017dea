package kube

import (
	"hash/maphash"
	"maps"
	"sync"
)

// interner keeps one copy of values that many objects share: versions, reasons, the labels that one Kustomization gives all its objects.
// Decoding makes a copy for each object, which would be most of the cache of a large cluster. It is bounded, since tenants choose the
// values: when it is full it is cleared. Its methods may be called concurrently.
type interner struct {
	seed   maphash.Seed
	mu     sync.Mutex
	texts  map[string]string
	labels map[uint64]map[string]string // by a hash, so that an object's labels cost no text to look them up
}

// The bounds on the contents of an interner.
const (
	maxInternedTexts  = 1 << 15 // of all kinds: each revision and message of a large cluster's sources is one
	maxInternedText   = 256     // bytes
	maxInternedLabels = 8192
)

func newInterner() *interner {
	return &interner{seed: maphash.MakeSeed(), texts: map[string]string{}, labels: map[uint64]map[string]string{}}
}

// Text returns s, or an equal string that is already kept.
func (n *interner) Text(s string) string {
	if s == "" || len(s) > maxInternedText {
		return s
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if known, ok := n.texts[s]; ok {
		return known
	}
	if len(n.texts) >= maxInternedTexts {
		clear(n.texts)
	}
	n.texts[s] = s
	return s
}

// Labels returns a map equal to m, a kept one if possible and never m itself. It must not be changed.
func (n *interner) Labels(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	size, hash := 0, uint64(0)
	for key, value := range m {
		size += len(key) + len(value)
		hash += maphash.Comparable(n.seed, [2]string{key, value}) // a sum, since a map has no order
	}
	if size > 4*maxInternedText {
		return maps.Clone(m)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if known := n.labels[hash]; maps.Equal(known, m) {
		return known
	}
	if len(n.labels) >= maxInternedLabels {
		clear(n.labels)
	}
	m = maps.Clone(m)
	n.labels[hash] = m
	return m
}
