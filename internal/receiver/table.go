package receiver

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"notifier/internal/fair"
	"notifier/internal/receiver/answer"
)

// ErrPathFull is the error for a path with as many Receivers as it may have. It cannot occur in a namespace that is alone in its choice of
// names and tokens.
var ErrPathFull = errors.New("too many Receivers have this webhook path; use another name or token")

// Table has the hooks of all Receivers by path. A lookup takes no lock. The cost of a change does not depend on the number of Receivers.
type Table struct {
	limits Limits
	all    capacity
	// mixed is the capacity of bodies on all paths that Receivers of several namespaces have, which are as one more namespace.
	mixed    *fair.Capacity
	moved    func(owner string)
	routes   sync.Map // path → *pathRoutes
	complete atomic.Bool
	awaited  awaited

	mu      sync.Mutex
	owners  map[string]*owner
	tenants map[string]*tenant
}

// route is a hook as it is served, with the state that belongs to its path and its Receiver. That state outlives the hook: an edit of the
// Receiver must not refill its budgets.
type route struct {
	hook  *Hook
	path  *pathState
	owner *owner
	// targets are TargetNames of the hook's.
	targets []string
	// suspended says that the hook is treated as if it were Suspended.
	suspended atomic.Bool
}

// pathState is the state of one owner's path.
type pathState struct {
	path     string
	failures *rate.Limiter
	// capacity is made for the first request: see Table.capacity.
	first    sync.Once
	capacity capacity
}

// owner is the state of one Receiver, as long as it is the same object.
type owner struct {
	key        string
	tenant     *tenant
	deliveries *rate.Limiter
	stats      *Stats
	seen       redeliveries
	// paths are one or two: of the token, and of the previous one. Table.mu protects them.
	paths []*pathState
}

// tenant is the state of one namespace. It is kept while the namespace has a Receiver, and then until none of it is in use. So a tenant
// that creates its Receivers again gets no second capacity and no refilled budget.
type tenant struct {
	namespace  string
	receivers  int // under Table.mu
	deliveries *rate.Limiter
	// capacity is made for the first request: see Table.capacity.
	first    sync.Once
	capacity capacity
}

// NewTable returns an empty table. moved is called, from within Put and Delete, with the key of another Receiver that gained or lost a
// place on a full path by the call. It may be nil, and must not call the table.
func NewTable(limits Limits, moved func(owner string)) (*Table, error) {
	if err := limits.validate(); err != nil {
		return nil, fmt.Errorf("webhook limits: %w", err)
	}
	all := newCapacity(limits)
	return &Table{
		limits:  limits,
		all:     all,
		mixed:   all.ofNamespace(limits).bodies,
		moved:   moved,
		owners:  make(map[string]*owner),
		tenants: make(map[string]*tenant),
	}, nil
}

// Put replaces all hooks of the Receiver with this key ("namespace/name"). The first has the path that the owner is shown, the others have
// paths that are being phased out. A path that was served before and is still served stays available throughout.
//
// ErrPathFull says that the first path has no place left: the claim is kept, and is served when another Receiver frees its place. The same
// applies to the other paths, but is no error: nothing is lost with a path that was never served. With any other error the Receiver serves
// nothing.
func (t *Table) Put(key string, hooks ...*Hook) error {
	var errs []error
	for _, h := range hooks {
		errs = append(errs, h.validate())
		if h.Namespace+"/"+h.Name != key {
			errs = append(errs, fmt.Errorf("hook of another Receiver than %s", key))
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.Delete(key)
		return err
	}
	if len(hooks) == 0 {
		t.Delete(key)
		return nil
	}
	defer t.awaited.set(key, nil)
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.own(key, hooks[0])
	before := o.paths
	o.paths = make([]*pathState, 0, len(hooks))
	for _, h := range hooks {
		l := find(before, h.Path)
		if l == nil {
			l = &pathState{path: h.Path, failures: t.limits.Failure.Limiter()}
		}
		o.paths = append(o.paths, l)
		t.claim(h.Path, key, &route{hook: h, path: l, owner: o, targets: TargetNames(h.Targets)})
	}
	for _, l := range before {
		if find(o.paths, l.path) == nil {
			t.claim(l.path, key, nil)
		}
	}
	if slices.Contains(t.at(hooks[0].Path).full, key) {
		return ErrPathFull
	}
	return nil
}

// find returns the state of a path, nil for none.
func find(among []*pathState, path string) *pathState {
	for _, l := range among {
		if l.path == path {
			return l
		}
	}
	return nil
}

// Delete removes all hooks of the Receiver with this key.
func (t *Table) Delete(key string) {
	t.awaited.set(key, nil)
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.owners[key]
	if o == nil {
		return
	}
	for _, l := range o.paths {
		t.claim(l.path, key, nil)
	}
	delete(t.owners, key)
	o.tenant.receivers--
	t.forget(o.tenant, time.Now())
}

// Suspend suspends all hooks of the Receiver with this key, which stay as they are otherwise.
func (t *Table) Suspend(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.owners[key]
	if o == nil {
		return
	}
	for _, l := range o.paths {
		for _, c := range t.at(l.path).claims {
			if c.owner == o {
				c.suspended.Store(true)
			}
		}
	}
}

// forget removes the state of a namespace that has no Receiver, once its capacity is free and its budget full.
func (t *Table) forget(n *tenant, now time.Time) {
	if n.receivers > 0 || n.deliveries.Limit() != rate.Inf && n.deliveries.TokensAt(now) < float64(n.deliveries.Burst()) {
		return
	}
	// The body of a shared path outlasts its place, and so do triggers.
	if c := t.ofTenant(n); c.requests.Idle() && c.bodies.Idle() && c.triggers.Idle() {
		delete(t.tenants, n.namespace)
	}
}

// Complete declares that every Receiver present at start was put: from now on an unknown path is 404, before it is 503.
func (t *Table) Complete() { t.complete.Store(true) }

// own returns the state of a Receiver, made if needed, with the budget of h. A Receiver that is created again has counts of its own, and
// the budget that its predecessor left.
func (t *Table) own(key string, h *Hook) *owner {
	budget := h.RateLimit.Within(t.limits.Receiver)
	o := t.owners[key]
	switch {
	case o == nil:
		o = &owner{key: key, tenant: t.tenant(h.Namespace), deliveries: budget.Limiter(), stats: NewStats(h.UID, time.Now())}
		o.tenant.receivers++
	case o.stats.UID != h.UID:
		o = &owner{key: key, tenant: o.tenant, deliveries: o.deliveries, stats: NewStats(h.UID, time.Now()), paths: o.paths}
	}
	budget.Apply(o.deliveries)
	t.owners[key] = o
	return o
}

// tenant returns the state of a namespace, made if needed.
func (t *Table) tenant(namespace string) *tenant {
	n := t.tenants[namespace]
	if n == nil {
		n = &tenant{namespace: namespace, deliveries: t.limits.Tenant.Limiter()}
		t.tenants[namespace] = n
	}
	return n
}

// lookup returns the Receivers of the request URI. For none it returns the answer to a webhook that comes too early, since the table is not
// complete or lacks an awaited Receiver, and nil for an unknown path. Both are read first: a path that is put between the reads is found, and
// never reported as unknown.
func (t *Table) lookup(uri string) (s *pathRoutes, early *answer.Answer) {
	starting, awaited := !t.complete.Load(), t.awaited.has(uri)
	switch s = t.at(uri); {
	case s != nil:
		return s, nil
	case starting && isHookPath(uri):
		return nil, hookStarting
	case awaited:
		return nil, hookAwaited
	}
	return nil, nil
}

// at returns the Receivers of a path, nil for none.
func (t *Table) at(path string) *pathRoutes {
	s, _ := t.routes.Load(path)
	found, _ := s.(*pathRoutes)
	return found
}

// expire frees the memory of webhooks that are too old to be remembered, and of namespaces without Receivers.
func (t *Table) expire(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.owners {
		o.seen.expire(now)
	}
	for _, n := range t.tenants {
		t.forget(n, now)
	}
}

// Stats implements Source. It expires old entries first, and keeps the table locked until the caller has seen all.
func (t *Table) Stats() iter.Seq2[string, *Stats] {
	return func(yield func(string, *Stats) bool) {
		t.expire(time.Now())
		t.mu.Lock()
		defer t.mu.Unlock()
		for key, o := range t.owners {
			if !yield(key, o.stats) {
				return
			}
		}
	}
}
