package reconcile

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"notifier/internal/reconcile/kube"
)

// ages orders the objects of one kind of each namespace by age, the oldest first, and so reports which are within the limit. A change costs
// a binary search, so a tenant with very many objects delays no other.
type ages struct {
	limit int

	mu         sync.Mutex
	namespaces map[string]ageOrder
	// created has the sort key of each object. It is one map for all namespaces: most have so few objects that a map for each would waste
	// memory.
	created map[kube.Key]int64
}

// ageOrder has the objects of one namespace, the oldest first.
type ageOrder []age

// age orders objects by the second of their creation, the API server's resolution. The name orders objects of the same second, so that all
// replicas decide alike.
type age struct {
	created int64
	name    string
}

// newAges returns the ages for a limit, nil for no limit.
func newAges(limit int) *ages {
	if limit == 0 {
		return nil
	}
	return &ages{limit: limit, namespaces: map[string]ageOrder{}, created: map[kube.Key]int64{}}
}

func (a age) compare(b age) int {
	return cmp.Or(cmp.Compare(a.created, b.created), strings.Compare(a.name, b.name))
}

// noted records whether an object is there, and returns its key and those of the others that this moves over the limit.
func noted[T kube.Object](s *ages, in *kube.Informer[T], o T) []kube.Key {
	k := kube.KeyOf(o)
	keys := []kube.Key{k}
	if s == nil {
		return keys
	}
	var created *time.Time
	if is, ok := in.Get(k); ok && is.GetDeletionTimestamp() == nil {
		at := is.GetCreationTimestamp().Time
		created = &at
	}
	return append(keys, s.note(k, created)...)
}

// note records that an object exists since created, or is gone if created is nil. It returns the others that this moves over the limit, in
// either direction.
func (s *ages) note(k kube.Key, created *time.Time) (moved []kube.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, known := s.created[k]
	if known == (created != nil) && (!known || was == created.Unix()) {
		return nil
	}
	all := s.namespaces[k.Namespace]
	if known {
		i, _ := slices.BinarySearchFunc(all, age{was, k.Name}, age.compare)
		all = slices.Delete(all, i, i+1)
		delete(s.created, k)
		moved = all.atLimit(moved, k.Namespace, i, s.limit-1)
	}
	if created != nil {
		is := age{created.Unix(), k.Name}
		i, _ := slices.BinarySearchFunc(all, is, age.compare)
		all = slices.Insert(all, i, is)
		s.created[k] = is.created
		moved = all.atLimit(moved, k.Namespace, i, s.limit)
	}
	if s.namespaces[k.Namespace] = all; len(all) == 0 {
		delete(s.namespaces, k.Namespace)
	}
	return moved
}

// atLimit appends the object that is now at place, if a change at or before place moved it there.
func (o ageOrder) atLimit(moved []kube.Key, namespace string, changed, place int) []kube.Key {
	if changed <= place && place < len(o) {
		moved = append(moved, kube.Key{Namespace: namespace, Name: o[place].name})
	}
	return moved
}

// over reports whether the namespace has at least limit older objects.
func (s *ages) over(k kube.Key, created time.Time) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.namespaces[k.Namespace]
	if len(all) < s.limit {
		return false
	}
	older, _ := slices.BinarySearchFunc(all, age{created.Unix(), k.Name}, age.compare)
	return older >= s.limit
}
