package receiver

import (
	"slices"
	"sync"
)

// awaited has the paths of Receivers that are not served now: their namespaces have used up their time of compiling, their Secrets cannot be
// read, or their specs have a fault. A sender that is told that the path is unknown might give it up.
type awaited struct {
	paths sync.Map // path → number of Receivers, which mu protects

	mu sync.Mutex
	of map[string][]string // by the key of the Receiver
}

// Await has webhooks at paths that no Receiver serves answered 503, until the next Put, Delete or Await of the Receiver with this key. They
// count as busy: no alarm about a start is due. Texts that are no path of a webhook are left out. Several Receivers may await one path.
func (t *Table) Await(key string, paths ...string) {
	t.awaited.set(key, slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return !isHookPath(path) }))
}

// set replaces the paths of a Receiver.
func (a *awaited) set(key string, paths []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, path := range paths { // first, so that a path that stays is awaited throughout
		a.paths.Store(path, a.receivers(path)+1)
	}
	for _, path := range a.of[key] {
		if left := a.receivers(path) - 1; left > 0 {
			a.paths.Store(path, left)
		} else {
			a.paths.Delete(path)
		}
	}
	delete(a.of, key)
	if len(paths) == 0 {
		return
	}
	if a.of == nil {
		a.of = map[string][]string{}
	}
	a.of[key] = paths
}

// receivers returns the number of Receivers that are awaited at a path.
func (a *awaited) receivers(path string) int {
	n, _ := a.paths.Load(path)
	number, _ := n.(int)
	return number
}

// has reports whether a Receiver is awaited at a path.
func (a *awaited) has(path string) bool {
	_, ok := a.paths.Load(path)
	return ok
}
