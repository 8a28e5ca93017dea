// Package bounds cuts the parts of an object that its author may make as long as the API server takes: a list of 1.4 MiB of JSON decodes to
// many times that. What remains of a part that is beyond its bound is still beyond it, so that the code that checks the bound still refuses it.
package bounds

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "notifier/api/v1"
)

// Spec drops what is never served from the spec of an Alert, Provider or Receiver, except that what is beyond a bound stays beyond it. The
// CRDs bound kinds, names and namespaces.
func Spec(object any) {
	switch o := object.(type) {
	case *v1.Alert:
		boundAlert(&o.Spec)
	case *v1.Provider:
		boundProvider(&o.Spec)
	case *v1.Receiver:
		boundReceiver(o)
	}
}

// maxStatus bounds what a status takes in memory, in bytes. Ours are a few kilobytes; of the messages of one by Flux there may be one of 32 KiB.
const maxStatus = 64 << 10

// Status drops the whole status of an Alert, Provider or Receiver if it is beyond the bound, so that ours replaces it. Tenants may write
// statuses.
func Status(object any) {
	switch o := object.(type) {
	case *v1.Alert:
		dropLarge(&o.Status)
	case *v1.Provider:
		dropLarge(&o.Status)
	case *v1.Receiver:
		dropLarge(&o.Status)
	}
}

func dropLarge[T any](status *T) {
	if beside(reflect.ValueOf(status).Elem()) > maxStatus {
		var none T
		*status = none
	}
}

// beside returns about how many bytes of memory a value takes beside its own: its texts and lists, and those in them.
func beside(v reflect.Value) (n int) {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Pointer:
		if !v.IsNil() {
			return int(v.Type().Elem().Size()) + beside(v.Elem())
		}
	case reflect.Slice:
		n = v.Len() * int(v.Type().Elem().Size())
		for i := range v.Len() {
			n += beside(v.Index(i))
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[metav1.Time]() { // all share their zones
			return 0
		}
		for _, field := range v.Fields() {
			n += beside(field)
		}
	default: // a number
	}
	return n
}

// maxName is the greatest length of the name of an object, in bytes.
const maxName = 253

// The greatest lengths of a label's key and value, and of "group/version", in bytes.
const (
	maxKey     = 253 + 1 + 63
	maxValue   = 63
	maxVersion = 253 + 1 + 63
)

// entry is about what a small entry of a map takes beside its texts, in bytes.
const entry = 64

// List keeps the first n entries, in memory of their own: a part of a slice keeps the whole in memory.
func List[T any](list *[]T, n int) {
	if n = min(n, len(*list)); n < cap(*list) {
		kept := make([]T, n)
		copy(kept, *list)
		*list = kept
	}
}

// Text keeps the first n bytes.
func Text(text *string, n int) {
	if len(*text) > n {
		*text = strings.Clone((*text)[:n])
	}
}

// cutName keeps one byte more than a name may have.
func cutName(name *string) { Text(name, maxName+1) }

// cutVersion keeps one byte more than an API version may have.
func cutVersion(apiVersion *string) { Text(apiVersion, maxVersion+1) }

// Size returns about how many bytes a map takes.
func Size(m map[string]string) int {
	n := 0
	for key, value := range m {
		n += EntrySize(key, value)
	}
	return n
}

// EntrySize is Size of a map with one entry.
func EntrySize(key, value string) int { return entry + len(key) + len(value) }

// unmatched are labels that no object has. They stand for those that are beyond a bound, since a part of them would select more. The map is
// shared, as everything in a cache, and never changed.
var unmatched = map[string]string{"": "-"}

// IsUnmatched reports whether labels have the empty key, which no object has.
func IsUnmatched(labels map[string]string) bool {
	_, ok := labels[""]
	return ok
}

// cutLabels replaces a map whose texts are too long for n labels by an unmatched one, and keeps n entries of one with more.
func cutLabels(m *map[string]string, n int) {
	cutEntries(m, n)
	if Size(*m) > n*(entry+maxKey+maxValue) {
		*m = unmatched
	}
}

// cutEntries keeps the first n entries of a map, in the order of the keys.
func cutEntries(m *map[string]string, n int) {
	if len(*m) <= n {
		return
	}
	kept := make(map[string]string, n)
	for _, key := range slices.Sorted(maps.Keys(*m))[:n] {
		kept[key] = (*m)[key]
	}
	*m = kept
}

// room is the number of bytes that may still be kept of several texts. One that begins with a bound plus one lets as much through as the
// bound allows, or one byte more.
type room int

// text keeps as many bytes as there is room for.
func (r *room) text(text *string) {
	Text(text, int(*r))
	*r -= room(len(*text))
}

// labels keeps a map whole, or if there is no room for it, one entry that no object has and that takes all the room.
func (r *room) labels(m *map[string]string) {
	n := room(0)
	for key, value := range *m {
		n += room(len(key) + len(value))
	}
	if n > *r {
		n = *r
		*m = map[string]string{"": strings.Repeat(" ", int(n))}
	}
	*r -= n
}

// texts keeps as many texts of a list as there is room for, if each takes one byte more than it has.
func (r *room) texts(list *[]string) {
	n := 0
	for i := range *list {
		if *r <= 0 {
			break
		}
		*r--
		r.text(&(*list)[i])
		n++
	}
	List(list, n)
}
