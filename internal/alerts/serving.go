package alerts

import (
	"context"
	"sync"
	"time"

	"notifier/internal/event"
)

// early are deliveries that were dispatched before their shard was served. Their router works until ctx ends.
type early struct {
	ctx   context.Context
	batch []event.Message[event.Delivery]
}

// serving has the shards that are served here.
type serving struct {
	mu     sync.Mutex
	shards map[int]*shard
	early  map[int][]early
	// term counts the routers from 1 on. Each begins with Begin.
	term int
	// returned are the shards that gave back deliveries of this router, or did not take them. It dispatches nothing more to them: the next one
	// dispatches these first (invariant E4).
	returned map[int]bool
	// behind is the router's, nil before the first one.
	behind func(namespace string) bool
	// count is the number of shards. begun is how many of them count their deliveries on the bus for the ledger, or have done so.
	count, begun int
	ledger       *Ledger
	shares       *shares
}

func newServing(count int, l *Ledger, s *shares) *serving {
	return &serving{shards: map[int]*shard{}, early: map[int][]early{}, term: 1, returned: map[int]bool{}, count: count, ledger: l, shares: s}
}

// begin begins the ledger's term with the first shard. Shards give their counts to the ledger after that.
func (v *serving) begin(now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.begun == 0 {
		v.ledger.begin(now)
	}
	v.begun++
}

// end clears the ledger when the last shard ends.
func (v *serving) end(now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.begun--; v.begun == 0 {
		v.ledger.begin(now)
	}
}

// add takes a shard up. It returns the deliveries that were dispatched to it before, with the router's term.
func (v *serving) add(s *shard) (dispatched []early, term int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shards[s.number] = s
	v.ledger.setCounted(len(v.shards) == v.count)
	dispatched = v.takeEarly(s.number)
	if v.returned[s.number] {
		dispatched = nil
	}
	return dispatched, v.term
}

// remove takes a shard away.
func (v *serving) remove(s *shard) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.shards, s.number)
	v.ledger.setCounted(false)
}

// giveBack records that a shard is about to give back a delivery of a router's term, or does not take it as the router has ended. The bus
// then ends that router, and its successor dispatches the delivery again.
func (v *serving) giveBack(number, term int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if term == v.term {
		v.returned[number] = true
	}
}

// get returns the shard of a number, nil while it is not served here.
func (v *serving) get(number int) *shard {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.shards[number]
}

// getOrKeep returns the shard of a number, with the router's term. While the shard is not served here, it returns nil and keeps the
// deliveries for it; if it gave some back, until the router ends.
func (v *serving) getOrKeep(number int, e early) (s *shard, term int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s = v.shards[number]; s == nil || v.returned[number] {
		v.early[number] = append(v.early[number], e)
		v.shares.holdEarly(e.batch, 1)
		return nil, v.term
	}
	return s, v.term
}

// takeEarly removes and returns what was kept for a shard. The caller holds the lock.
func (v *serving) takeEarly(number int) []early {
	kept := v.early[number]
	delete(v.early, number)
	for _, e := range kept {
		v.shares.holdEarly(e.batch, -1)
	}
	return kept
}

// beginTerm begins a router's term.
func (v *serving) beginTerm(behind func(namespace string) bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.term++
	v.behind = behind
	clear(v.returned)
	for number := range v.early {
		v.takeEarly(number) // the former router's, whose events are routed again
	}
}

// awaits reports whether older events of a namespace, from before the router's term, may still be dispatched to a shard. The router
// dispatches nothing to a shard that gave some back, so such a shard awaits the next router.
func (v *serving) awaits(number int, namespace string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.returned[number] || v.behind == nil || v.behind(namespace)
}

// whole reports whether every shard is served here.
func (v *serving) whole() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.shards) == v.count
}

func (v *serving) all() []*shard {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := make([]*shard, 0, len(v.shards))
	for _, s := range v.shards {
		all = append(all, s)
	}
	return all
}
