package watch

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// words keeps one copy of values that many objects share: versions, reasons, the labels that one Kustomization gives all its objects.
// Decoding makes a copy for each object, which would be most of the cache of a large cluster. It is bounded, since tenants choose the
// values: when it is full it is cleared.
type words struct {
	mu     sync.Mutex
	texts  map[string]string
	labels map[string]map[string]string
}

// The bounds on the contents of words.
const (
	maxWords      = 8192
	maxWordLength = 256
)

func newWords() *words {
	return &words{texts: map[string]string{}, labels: map[string]map[string]string{}}
}

// one returns s, or an equal string that is already kept.
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

// set returns a map equal to m, a kept one if possible. It must not be changed.
func (w *words) set(m map[string]string) map[string]string {
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
