package receiver

import "sync"

// awaited has the paths of Receivers that are served later: their namespaces have used up their time of compiling. A sender that is told
// that the path is unknown might give it up.
type awaited struct {
	paths sync.Map // path → key of the Receiver

	mu sync.Mutex
	of map[string][]string // by the key of the Receiver
}

// Await has webhooks at paths that no Receiver serves answered 503, until the next Put, Delete or Await of the Receiver with this key. They
// count as busy: their own namespace has caused it, and no alarm about a start is due.
func (t *Table) Await(key string, paths ...string) { t.awaited.set(key, paths) }

// set replaces the paths of a Receiver.
func (a *awaited) set(key string, paths []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, path := range a.of[key] {
		a.paths.CompareAndDelete(path, key)
	}
	delete(a.of, key)
	if len(paths) == 0 {
		return
	}
	if a.of == nil {
		a.of = map[string][]string{}
	}
	a.of[key] = paths
	for _, path := range paths {
		a.paths.Store(path, key)
	}
}

// has reports whether a Receiver is awaited at a path.
func (a *awaited) has(path string) bool {
	_, ok := a.paths.Load(path)
	return ok
}
