package alerts

import (
	"slices"
	"strings"
	"sync"
	"time"

	"notifier/internal/event"
)

// Table has the compiled Alerts, each in the index of its own namespace. A change costs as much as the Alert's own sources, regardless of
// the rest of its namespace.
type Table struct {
	// writers is locked by Put and Delete. It keeps a namespace from being dropped while an Alert is added to it.
	writers    sync.Mutex
	namespaces sync.Map // name → *namespace
}

// NewTable returns an empty table.
func NewTable() *Table { return &Table{} }

type namespace struct {
	mu sync.RWMutex
	// alerts are sorted by name. Most namespaces have a few, for which a map would be mostly empty space.
	alerts []*Alert
	index  index
}

// find returns the place of an Alert's name, and the Alert if there is one.
func (ns *namespace) find(name string) (place int, found *Alert) {
	place, ok := slices.BinarySearchFunc(ns.alerts, name, func(a *Alert, name string) int { return strings.Compare(a.Name, name) })
	if ok {
		found = ns.alerts[place]
	}
	return place, found
}

// Put adds an Alert or replaces the one of the same key.
func (t *Table) Put(a *Alert) {
	t.writers.Lock()
	defer t.writers.Unlock()
	v, _ := t.namespaces.LoadOrStore(a.Namespace, &namespace{index: index{}})
	ns := v.(*namespace)
	ns.mu.Lock()
	defer ns.mu.Unlock()
	place, before := ns.find(a.Name)
	switch {
	case before == a:
		return
	case before != nil && before.UID == a.UID:
		a.seen = before.seen
	default:
		a.seen = time.Now()
	}
	ns.index.add(a)
	if before != nil {
		ns.index.remove(before)
		ns.alerts[place] = a
	} else {
		ns.alerts = slices.Insert(ns.alerts, place, a)
	}
}

// Delete removes the Alert with the key "namespace/name", if there is one.
func (t *Table) Delete(key string) {
	name, object, _ := strings.Cut(key, "/")
	t.writers.Lock()
	defer t.writers.Unlock()
	v, ok := t.namespaces.Load(name)
	if !ok {
		return
	}
	ns := v.(*namespace)
	ns.mu.Lock()
	defer ns.mu.Unlock()
	place, gone := ns.find(object)
	if gone == nil {
		return
	}
	ns.index.remove(gone)
	if ns.alerts = slices.Delete(ns.alerts, place, place+1); len(ns.alerts) == 0 {
		t.namespaces.Delete(name)
	}
}

// locked returns the namespace of a name, locked for reading, nil if it has no Alerts.
func (t *Table) locked(name string) *namespace {
	v, ok := t.namespaces.Load(name)
	if !ok {
		return nil
	}
	ns := v.(*namespace)
	ns.mu.RLock()
	return ns
}

// Lookup returns the live Alert of that name.
func (t *Table) Lookup(namespaceName, name string) (*Alert, bool) {
	ns := t.locked(namespaceName)
	if ns == nil {
		return nil, false
	}
	defer ns.mu.RUnlock()
	_, a := ns.find(name)
	return a, a != nil
}

// Select appends to into the Alerts of the object's namespace that have a source for the object, ordered by name and without suspended
// ones. Labels are nil when the object is not known. considered counts the compared sources: the cost of an event (invariant E8).
func (t *Table) Select(o event.ObjectReference, labels map[string]string, into []*Alert) (selected []*Alert, considered int) {
	ns := t.locked(o.Namespace)
	if ns == nil {
		return into, 0
	}
	defer ns.mu.RUnlock()
	selected, considered = ns.index.matching(o, labels, into)
	if found := selected[len(into):]; len(found) > 1 {
		slices.SortFunc(found, func(a, b *Alert) int { return strings.Compare(a.Name, b.Name) })
		selected = selected[:len(into)+len(slices.Compact(found))]
	}
	return selected, considered
}

// all returns all Alerts of a namespace, ordered by name.
func (t *Table) all(namespaceName string) []*Alert {
	ns := t.locked(namespaceName)
	if ns == nil {
		return nil
	}
	defer ns.mu.RUnlock()
	return slices.Clone(ns.alerts)
}

// concerned returns how many Alerts have sources of the object's kind and name.
func (t *Table) concerned(o event.ObjectReference) int {
	ns := t.locked(o.Namespace)
	if ns == nil {
		return 0
	}
	defer ns.mu.RUnlock()
	lists := ns.index.of(o)
	return len(lists[0]) + len(lists[1])
}
