package secrets

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"notifier/internal/reconcile/kube"
)

// consistent fails the test unless the references, users, keys and counts of a Store agree with one another.
func (s *Store) consistent(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, found := range s.inconsistencies() {
		t.Error(found)
	}
}

func (s *Store) inconsistencies() (found []string) {
	wrong := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	for user, entries := range s.held {
		if len(entries) == 0 {
			wrong("%v is kept and holds nothing", user)
		}
		for _, e := range entries {
			if _, is := e.find(user); !is || s.entries[e.key] != e {
				wrong("%v holds %s, of which it is a user: %t, and which is current: %t", user, e.key, is, s.entries[e.key] == e)
			}
		}
	}
	for key, e := range s.entries {
		if e.key != key || e.released || len(e.users) == 0 {
			wrong("%s is kept as %s, released: %t, with %d users", e.key, key, e.released, len(e.users))
		}
		for i, user := range e.users {
			if place, _ := e.find(user); place != i || user.Key.Namespace != key.Namespace || !slices.Contains(s.held[user], e) {
				wrong("%v does not hold %s", user, key)
			}
		}
		if known := e.keys[:e.loaded]; !e.known && e.loaded > 0 || hasDuplicates(e.keys) {
			wrong("%s has of its keys %q those of %q", key, e.keys, known)
		}
		for _, value := range e.data {
			if !slices.Contains(e.keys, value.Key) {
				wrong("%s has a value of %s, which no user wants", key, value.Key)
			}
		}
		if e.known && !e.queued {
			wrong("%s was read and is not watched", key)
		}
	}
	if held := testutil.ToFloat64(s.metrics.held); int(held) != len(s.entries) {
		wrong("%g Secrets are counted, of %d", held, len(s.entries))
	}
	return found
}

// asWatched checks that each Secret has one open watch, and no other has any. A watch that has just ended is begun again meanwhile.
func (m *moody) asWatched(t *testing.T, s *Store) {
	t.Helper()
	found := m.unlikeWatched(s)
	for tries := 0; tries < 3 && len(found) > 0; tries++ {
		pass(time.Minute)
		found = m.unlikeWatched(s)
	}
	for _, wrong := range found {
		t.Error(wrong)
	}
}

func (m *moody) unlikeWatched(s *Store) (found []string) {
	open := map[kube.Key]int{}
	m.vault.mu.Lock()
	for w, k := range m.watchers {
		if !w.IsStopped() {
			open[k]++
		}
	}
	m.vault.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.entries {
		if open[k] != 1 {
			found = append(found, fmt.Sprintf("%s has %d watches", k, open[k]))
		}
		delete(open, k)
	}
	if watches := int(testutil.ToFloat64(s.metrics.watches)); len(open) > 0 || watches != len(s.entries) {
		found = append(found, fmt.Sprintf("%d watches are counted of %d Secrets; nobody needs those of %v", watches, len(s.entries), open))
	}
	return found
}

func hasDuplicates(keys []string) bool {
	sorted := slices.Sorted(slices.Values(keys))
	return len(slices.Compact(sorted)) < len(keys)
}
