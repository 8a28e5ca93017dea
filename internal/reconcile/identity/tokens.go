package identity

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"notifier/internal/fair"
)

// tokens caches tokens up to a number. A further one takes the place of one of the namespace that has the most, which may be its own: a tenant
// makes any number of accounts.
type tokens struct {
	size int

	mu sync.Mutex
	n  int
	// namespaces has those that have tokens. Of several that have the most, the one that was used longest ago gives up its token.
	namespaces *simplelru.LRU[string, *simplelru.LRU[issuedFor, keptToken]]
}

func newTokens(size int) *tokens {
	return &tokens{size: size, namespaces: fair.NewLRU[string, *simplelru.LRU[issuedFor, keptToken]](size + 1)}
}

func (t *tokens) get(key issuedFor) (kept keptToken, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if of, found := t.namespaces.Get(key.account.Namespace); found {
		return of.Get(key)
	}
	return keptToken{}, false
}

func (t *tokens) add(key issuedFor, kept keptToken) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of, found := t.namespaces.Get(key.account.Namespace)
	if !found {
		of = fair.NewLRU[issuedFor, keptToken](t.size)
		t.namespaces.Add(key.account.Namespace, of)
	}
	t.n -= of.Len()
	of.Add(key, kept)
	if t.n += of.Len(); t.n > t.size {
		t.drop()
	}
}

// drop drops a token.
func (t *tokens) drop() {
	var namespace string
	var most *simplelru.LRU[issuedFor, keptToken]
	for _, n := range t.namespaces.Keys() { // the one that was used longest ago first
		if of, _ := t.namespaces.Peek(n); most == nil || of.Len() > most.Len() {
			namespace, most = n, of
		}
	}
	most.RemoveOldest()
	t.n--
	if most.Len() == 0 {
		t.namespaces.Remove(namespace)
	}
}
