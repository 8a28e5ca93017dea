package kube

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"unsafe"
)

// Fails when objects with equal values keep a copy each, when two that differ share, or when tenants' values let the table grow without
// bound.
func TestValuesThatObjectsShareAreKeptOnce(t *testing.T) {
	w := newInterner()
	a, b := w.Text(strings.Clone("main@sha1:1")), w.Text(strings.Clone("main@sha1:1"))
	if unsafe.StringData(a) != unsafe.StringData(b) {
		t.Error("a string is kept twice")
	}
	one, other := w.Labels(map[string]string{"a": "b", "c": "d"}), w.Labels(map[string]string{"c": "d", "a": "b"})
	if reflect.ValueOf(one).Pointer() != reflect.ValueOf(other).Pointer() {
		t.Error("a map is kept twice")
	}
	for _, m := range []map[string]string{{"a": "b"}, {"a": "b\x00c\x00d"}, {"a": "b", "c": "e"}, {}, nil} {
		if got := w.Labels(maps.Clone(m)); len(got) != len(m) || len(m) > 0 && !maps.Equal(got, m) {
			t.Errorf("%v became %v", m, got)
		}
	}
	for i := range 3 * maxInternedTexts {
		w.Text(fmt.Sprint("word", i))
		w.Labels(map[string]string{"label": fmt.Sprint(i)})
	}
	if len(w.texts) > maxInternedTexts || len(w.labels) > maxInternedLabels {
		t.Errorf("%d texts, %d sets of labels", len(w.texts), len(w.labels))
	}
	long := strings.Repeat("x", maxInternedText+1)
	if w.Text(long) != long || w.texts[long] != "" {
		t.Error("a long text is changed or kept")
	}
}
