package alerts

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"notifier/internal/event"
)

// Table holds the compiled Alerts, each in the index of its own namespace. Readers take no lock but after a change in that
// namespace, when the first one builds its index anew: so any number of changes before the first event costs one build.
type Table struct {
	// writers is held by Put and Delete; it keeps a namespace from being dropped while an Alert is added to it.
	writers    sync.Mutex
	namespaces sync.Map // name → *namespace

	once     sync.Once
	complete chan struct{}
}

// NewTable returns an empty table.
func NewTable() *Table { return &Table{complete: make(chan struct{})} }

// Complete says that every Alert present at start is in the table.
func (t *Table) Complete() { t.once.Do(func() { close(t.complete) }) }

// Ready is closed by Complete.
func (t *Table) Ready() <-chan struct{} { return t.complete }

type namespace struct {
	mu     sync.RWMutex
	alerts map[string]*Alert
	// index is nil while it does not stand for alerts. It is set under mu.
	index atomic.Pointer[index]
}

// index finds an object's candidates by kind and name.
type index struct{ kinds map[string]*kindIndex }

// kindIndex holds candidates ordered by the Alert's name.
type kindIndex struct {
	named map[string][]candidate
	any   []candidate
}

type candidate struct {
	alert *Alert
	// labels must all be on the object; nil asks for none, empty asks that the object be known.
	labels map[string]string
}

// Put adds an Alert or replaces the one of the same key, which is "namespace/name" of the Alert itself: any other key would
// open one namespace's Alerts to another's events, so it panics.
func (t *Table) Put(key string, a *Alert) {
	if key != a.Key() {
		panic("alerts: Put with the key of another Alert")
	}
	t.writers.Lock()
	defer t.writers.Unlock()
	v, _ := t.namespaces.LoadOrStore(a.Namespace, &namespace{alerts: map[string]*Alert{}})
	ns := v.(*namespace)
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.alerts[a.Name] = a
	ns.index.Store(nil)
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
	delete(ns.alerts, object)
	ns.index.Store(nil)
	if len(ns.alerts) == 0 {
		t.namespaces.Delete(name)
	}
}

// Lookup returns the live Alert of that name.
func (t *Table) Lookup(namespaceName, name string) (*Alert, bool) {
	v, ok := t.namespaces.Load(namespaceName)
	if !ok {
		return nil, false
	}
	ns := v.(*namespace)
	ns.mu.RLock()
	defer ns.mu.RUnlock()
	a, ok := ns.alerts[name]
	return a, ok
}

// Select appends to into the Alerts of the object's namespace one of whose sources matches the object, ordered by name and
// without those that are suspended. Labels are nil when the object is not known. considered counts the sources that were
// compared, which is what an event costs (invariant E8).
func (t *Table) Select(o event.ObjectReference, labels map[string]string, into []*Alert) (selected []*Alert, considered int) {
	v, ok := t.namespaces.Load(o.Namespace)
	if !ok {
		return into, 0
	}
	kind := v.(*namespace).current().kinds[o.Kind]
	if kind == nil {
		return into, 0
	}
	named, rest := kind.named[o.Name], kind.any
	considered = len(named) + len(rest)
	var last *Alert
	for len(named)+len(rest) > 0 {
		var c candidate
		if len(rest) == 0 || len(named) > 0 && named[0].alert.Name <= rest[0].alert.Name {
			c, named = named[0], named[1:]
		} else {
			c, rest = rest[0], rest[1:]
		}
		if c.alert != last && c.selects(labels) {
			last = c.alert
			into = append(into, c.alert)
		}
	}
	return into, considered
}

func (c candidate) selects(labels map[string]string) bool {
	return c.labels == nil || labels != nil && event.HasLabels(labels, c.labels)
}

func (ns *namespace) current() *index {
	if i := ns.index.Load(); i != nil {
		return i
	}
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if i := ns.index.Load(); i != nil {
		return i
	}
	i := buildIndex(ns.alerts)
	ns.index.Store(i)
	return i
}

func buildIndex(alerts map[string]*Alert) *index {
	sorted := make([]*Alert, 0, len(alerts))
	for _, a := range alerts {
		if !a.suspended {
			sorted = append(sorted, a)
		}
	}
	slices.SortFunc(sorted, func(x, y *Alert) int { return strings.Compare(x.Name, y.Name) })
	i := &index{kinds: map[string]*kindIndex{}}
	for _, a := range sorted {
		for _, s := range a.sources {
			k := i.kinds[s.Kind]
			if k == nil {
				k = &kindIndex{named: map[string][]candidate{}}
				i.kinds[s.Kind] = k
			}
			c := candidate{alert: a, labels: s.MatchLabels}
			if s.Name == "*" {
				k.any = append(k.any, c)
			} else {
				k.named[s.Name] = append(k.named[s.Name], c)
			}
		}
	}
	return i
}
