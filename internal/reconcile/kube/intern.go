package kube

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// Interner keeps one copy of values that many objects share: versions, reasons, the labels that one Kustomization gives all its objects.
// Decoding makes a copy for each object, which would be most of the cache of a large cluster. It is bounded, since tenants choose the
// values: when it is full it is cleared. Its methods may be called concurrently.
type Interner struct {
	mu     sync.Mutex
	texts  map[string]string
	labels map[string]map[string]string
}

// The bounds on the contents of an Interner.
const (
	maxInterned     = 8192
	maxInternedText = 256 // bytes
)

// NewInterner returns an empty Interner.
func NewInterner() *Interner {
	return &Interner{texts: map[string]string{}, labels: map[string]map[string]string{}}
}

// Text returns s, or an equal string that is already kept.
func (n *Interner) Text(s string) string {
	if s == "" || len(s) > maxInternedText {
		return s
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if known, ok := n.texts[s]; ok {
		return known
	}
	if len(n.texts) >= maxInterned {
		clear(n.texts)
	}
	n.texts[s] = s
	return s
}

// Labels returns a map equal to m, a kept one if possible. It must not be changed.
func (n *Interner) Labels(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(m)) {
		b.WriteString(key)
		b.WriteByte(0) // no label or annotation key has a zero byte; a value with one makes another text of the same length at most
		b.WriteString(m[key])
		b.WriteByte(0)
	}
	text := b.String()
	if len(text) > 4*maxInternedText {
		return m
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if known, ok := n.labels[text]; ok && maps.Equal(known, m) {
		return known
	}
	if len(n.labels) >= maxInterned {
		clear(n.labels)
	}
	n.labels[text] = m
	return m
}
