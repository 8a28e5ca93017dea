package watch

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// words keeps one copy of what many objects have in common: versions, reasons, the labels that one Kustomization gives all it applies.
// Decoding makes a copy for each object, which is most of what the cache of a large cluster would hold. It is bounded, since tenants
// choose these: when it is full it begins anew.
type words struct {
	mu     sync.Mutex
	texts  map[string]string
	labels map[string]map[string]string
}

// The bounds on what words keeps.
const (
	maxWords      = 8192
	maxWordLength = 256
)

func newWords() *words {
	return &words{texts: map[string]string{}, labels: map[string]map[string]string{}}
}

// one returns s, or an equal string that is there already.
func (w *words) one(s string) string {
	if s == "" || len(s) > maxWordLength {
		return s
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if known, ok := w.texts[s]; ok {
		return known
	}
	if len(w.texts) >= maxWords {
		clear(w.texts)
	}
	w.texts[s] = s
	return s
}

// set returns a map equal to m, one that is there already if it can. It must not be changed.
func (w *words) set(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(m)) {
		b.WriteString(key)
		b.WriteByte(0) // in no label or annotation key; a value that has one makes another text of the same length at most
		b.WriteString(m[key])
		b.WriteByte(0)
	}
	text := b.String()
	if len(text) > 4*maxWordLength {
		return m
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if known, ok := w.labels[text]; ok && maps.Equal(known, m) {
		return known
	}
	if len(w.labels) >= maxWords {
		clear(w.labels)
	}
	w.labels[text] = m
	return m
}
