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
	return &ages{limit: limit, namespaces: map[string]ageOrder{}}
}

func (a age) compare(b age) int {
	return cmp.Or(cmp.Compare(a.created, b.created), strings.Compare(a.name, b.name))
}

func ageOf(o kube.Object) age { return age{o.GetCreationTimestamp().Unix(), o.GetName()} }

// noted records whether an object is there, and returns its key and those of the others that this moves over the limit. It is called with
// each object that was added, and later with the same when it was replaced or deleted.
func noted[T kube.Object](s *ages, in *kube.Informer[T], o T) []kube.Key {
	k := kube.KeyOf(o)
	keys := []kube.Key{k}
	if s == nil {
		return keys
	}
	var now *age
	if is, ok := in.Get(k); ok && is.GetDeletionTimestamp() == nil {
		at := ageOf(is)
		now = &at
	}
	return append(keys, s.note(k.Namespace, ageOf(o), now)...)
}

// note records the present object of a name, nil for none, in place of an object of that name that was seen, which may be the same. It
// returns the others that this moves over the limit, in either direction.
func (s *ages) note(namespace string, seen age, now *age) (moved []kube.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.namespaces[namespace]
	if i, found := slices.BinarySearchFunc(all, seen, age.compare); found && (now == nil || *now != seen) {
		all = slices.Delete(all, i, i+1)
		moved = all.atLimit(moved, namespace, i, s.limit-1)
	}
	if now != nil {
		if i, found := slices.BinarySearchFunc(all, *now, age.compare); !found {
			all = slices.Insert(all, i, *now)
			moved = all.atLimit(moved, namespace, i, s.limit)
		}
	}
	if s.namespaces[namespace] = all; len(all) == 0 {
		delete(s.namespaces, namespace)
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
