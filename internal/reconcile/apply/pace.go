package apply

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// versionBurst is how many versions that serve nothing, as far as is known, a namespace has asked for at once, and versionPause how
	// often one more.
	versionBurst = 8
	versionPause = 2 * time.Second
	// maxAskers bounds the namespaces whose pace is known.
	maxAskers = 1024
)

// asker is the namespace that a version is looked up for. A version that serves nothing is fetched only at the pace of the namespace:
// tenants invent versions, and each costs a request.
type asker struct {
	paces     *paces // nil without a limit
	namespace string
	// paid says that it has had its turn for the fetch to come.
	paid bool
}

// allowed reports whether it is the namespace's turn.
func (a asker) allowed() bool { return a.paid || a.paces == nil || a.paces.allow(a.namespace) }

// paces are those of the namespaces that had a version asked for that served nothing. Their lock is taken last.
type paces struct {
	mu sync.Mutex
	of map[string]*rate.Limiter
}

// allow takes a namespace's turn if it has one now.
func (p *paces) allow(namespace string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.of[namespace]
	if l == nil {
		if len(p.of) >= maxAskers {
			p.forget()
		}
		if p.of == nil {
			p.of = map[string]*rate.Limiter{}
		}
		l = rate.NewLimiter(rate.Every(versionPause), versionBurst)
		p.of[namespace] = l
	}
	return l.Allow()
}

// forget drops those that have all their turns again, and if there are none any one. The caller holds the lock.
func (p *paces) forget() {
	now, last := time.Now(), ""
	for namespace, l := range p.of {
		if last = namespace; l.TokensAt(now) >= versionBurst {
			delete(p.of, namespace)
		}
	}
	if len(p.of) >= maxAskers {
		delete(p.of, last)
	}
}
