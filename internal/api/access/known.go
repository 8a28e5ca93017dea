package access

import (
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"notifier/internal/fair"
)

// tenantTokens bounds the tokens of one tenant that are remembered. The right to make tokens of a service account has no such bound.
const tenantTokens = 64

// owned has the remembered tokens of each tenant, oldest first.
type owned struct {
	mu     sync.Mutex
	tokens *simplelru.LRU[string, []tokenKey]
}

func newOwned() *owned { return &owned{tokens: fair.NewLRU[string, []tokenKey](maxUsers)} }

// add adds a token of a tenant, and returns the one that is to be forgotten for it if there is any.
func (o *owned) add(tenant string, key tokenKey) (oldest tokenKey, forget bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	keys, _ := o.tokens.Get(tenant)
	if slices.Contains(keys, key) {
		return oldest, false
	}
	if forget = len(keys) == tenantTokens; forget {
		oldest, keys = keys[0], slices.Delete(keys, 0, 1)
	}
	o.tokens.Add(tenant, append(keys, key))
	return oldest, forget
}
