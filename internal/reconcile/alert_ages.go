package reconcile

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"notifier/internal/reconcile/kube"
)

// ages orders the Alerts of each namespace, the oldest first, and so says which are within a limit. A change costs what finding a place
// in order costs, not what the namespace has: a tenant with very many Alerts delays no other.
type ages struct {
	limit int

	mu         sync.Mutex
	namespaces map[string]*ageOrder
}

// ageOrder has the Alerts of one namespace.
type ageOrder struct {
	sorted  []age
	created map[string]time.Time // by name
}

// age orders Alerts. The name decides between those of one second, so that all replicas decide alike.
type age struct {
	created time.Time
	name    string
}

func newAges(limit int) *ages { return &ages{limit: limit, namespaces: map[string]*ageOrder{}} }

func (a age) compare(b age) int {
	return cmp.Or(a.created.Compare(b.created), strings.Compare(a.name, b.name))
}

// note takes in that an Alert exists since created, or with nil that it does not, and returns the others that this moves over the limit,
// up or down.
func (s *ages) note(k kube.Key, created *time.Time) (moved []kube.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.namespaces[k.Namespace]
	if all == nil {
		all = &ageOrder{created: map[string]time.Time{}}
		s.namespaces[k.Namespace] = all
	}
	was, known := all.created[k.Name]
	if known == (created != nil) && (!known || was.Equal(*created)) {
		return nil
	}
	if known {
		i, _ := slices.BinarySearchFunc(all.sorted, age{was, k.Name}, age.compare)
		all.sorted = slices.Delete(all.sorted, i, i+1)
		delete(all.created, k.Name)
		moved = all.atLimit(moved, k.Namespace, i, s.limit-1)
	}
	if created != nil {
		i, _ := slices.BinarySearchFunc(all.sorted, age{*created, k.Name}, age.compare)
		all.sorted = slices.Insert(all.sorted, i, age{*created, k.Name})
		all.created[k.Name] = *created
		moved = all.atLimit(moved, k.Namespace, i, s.limit)
	}
	if len(all.sorted) == 0 {
		delete(s.namespaces, k.Namespace)
	}
	return moved
}

// atLimit appends the Alert that has come to a place by a change at or before it.
func (e *ageOrder) atLimit(moved []kube.Key, namespace string, changed, place int) []kube.Key {
	if changed <= place && place < len(e.sorted) {
		moved = append(moved, kube.Key{Namespace: namespace, Name: e.sorted[place].name})
	}
	return moved
}

// over reports whether as many older Alerts as the limit are in the namespace.
func (s *ages) over(k kube.Key, created time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.namespaces[k.Namespace]
	if all == nil || len(all.sorted) < s.limit {
		return false
	}
	older, _ := slices.BinarySearchFunc(all.sorted, age{created, k.Name}, age.compare)
	return older >= s.limit
}
