package limit

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// turnWait is how long a webhook waits for its turn and a place.
const turnWait = 2 * time.Second

// What makes a webhook a quick one. Most documents take a tenth of this size, and most filters a hundredth of this time.
const (
	quickSize = 1 << 20
	quickTime = 20 * time.Millisecond
	// slowFor is for how long a namespace is taken for slow that was once.
	slowFor = 30 * time.Second
)

// A namespace may use a timeShare'th of one processor. One that owes more than maxOwed waits until it owes no more: a burst of
// webhooks is not held up.
const (
	timeShare = 4
	maxOwed   = time.Second
)

// FilterTime is how long all filters of one webhook may take together, and all expressions over a token's claims. It is far beyond what
// filters need that somebody wrote in earnest, so that a busy machine fails none of them.
const FilterTime = 250 * time.Millisecond

// ErrNoTurn says that filters, or the expressions over a token's claims, could not be begun with in time. It is no failure of theirs.
var ErrNoTurn = errors.New("no turn for expressions in time")

// Share divides memory and processor time among namespaces for work on authentic webhooks that takes long: filters, the expressions over
// a token's claims, the decoding of CDEvents. The webhooks of one namespace are worked on one after the other and are charged for their
// time, so that expensive ones delay their own namespace. Those with a large document, and those of a namespace whose work took long, have
// one slot beside the slots of all others. At a time there is one document of up to the greatest size, and a document of up to 1 MiB for
// each of two webhooks a processor. It is safe for concurrent use; a nil Share bounds nothing.
type Share struct {
	quick, slow slots
	namespaces
}

// namespaces are those who take turns.
type namespaces struct {
	mu    sync.Mutex
	turns map[string]*turn // by namespace, of those that have work here or are remembered for it
	swept time.Time
}

func newNamespaces() namespaces { return namespaces{turns: make(map[string]*turn)} }

// turn is one namespace's. Who has it may use what is below.
type turn struct {
	taken *semaphore.Weighted
	users int // guarded by namespaces.mu

	// owed is the time that was used and not paid for at the time of at.
	owed time.Duration
	at   time.Time
	took time.Duration // of the last one
	slow time.Time     // when it last was
	// again is when who was put off last may come again. A CompileShare puts off, a Share does not.
	again time.Time
}

// NewShare returns the Share of all Receivers of the process.
func NewShare() *Share {
	return &Share{quick: slots{free: 2 * runtime.GOMAXPROCS(0)}, slow: slots{free: 1}, namespaces: newNamespaces()}
}

// Enter takes the namespace's turn and a slot for a document of size bytes when it is decoded, and reports whether both were free within
// two seconds and before ctx ended. leave gives them back.
func (r *Share) Enter(ctx context.Context, namespace string, size int64) (leave func(), ok bool) {
	if r == nil {
		return func() {}, true
	}
	ctx, cancel := context.WithTimeout(ctx, turnWait)
	defer cancel()
	t := r.use(namespace)
	if t.taken.Acquire(ctx, 1) != nil {
		r.drop(namespace, t)
		return nil, false
	}
	l := r.place(ctx, t, size)
	if l == nil {
		t.taken.Release(1)
		r.drop(namespace, t)
		return nil, false
	}
	began := time.Now()
	return func() {
		l.give()
		t.charge(began, time.Now())
		t.taken.Release(1)
		r.drop(namespace, t)
	}, true
}

// place takes a place for who has the turn, and returns the slots that it is in, nil if there was none in time.
func (r *Share) place(ctx context.Context, t *turn, size int64) *slots {
	if !t.pay(ctx) {
		return nil
	}
	l := &r.quick
	if size > quickSize || t.wasSlow(time.Now()) {
		l = &r.slow
	}
	if !l.take(ctx, t.slow) {
		return nil
	}
	return l
}

func (t *turn) wasSlow(now time.Time) bool { return now.Sub(t.slow) < slowFor }

// owes is what of the time used is not paid for yet.
func (t *turn) owes(now time.Time) time.Duration { return max(0, t.owed-now.Sub(t.at)/timeShare) }

// untilPaid is how long it takes until the namespace owes no more than most; not above zero when it does so now.
func (t *turn) untilPaid(now time.Time, most time.Duration) time.Duration {
	return (t.owes(now) - most) * timeShare
}

// pay waits until the namespace owes no more than it may, and reports whether that is before ctx ends.
func (t *turn) pay(ctx context.Context) bool {
	wait := t.untilPaid(time.Now(), maxOwed)
	if wait <= 0 {
		return true
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
		return false // what waits holds memory, so nothing waits in vain
	}
	paid := time.NewTimer(wait)
	defer paid.Stop()
	select {
	case <-paid.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// charge notes that the namespace had its place from began until now. It does not pay for a machine that stood still.
func (t *turn) charge(began, now time.Time) {
	took := now.Sub(began)
	if took > quickTime {
		t.slow = now
	}
	t.took = min(max(took, 0), 2*FilterTime)
	t.owed, t.at = t.owes(now)+t.took, now
}

// settled reports whether there is nothing to remember of the namespace.
func (t *turn) settled(now time.Time) bool {
	return t.users == 0 && t.owes(now) == 0 && !t.wasSlow(now)
}

func (n *namespaces) use(namespace string) *turn {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.turns[namespace]
	if t == nil {
		t = &turn{taken: semaphore.NewWeighted(1)}
		n.turns[namespace] = t
	}
	t.users++
	return t
}

// drop ends the use of a turn, and forgets from time to time the namespaces of which there is nothing to remember.
func (n *namespaces) drop(namespace string, t *turn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t.users--
	now := time.Now()
	if t.settled(now) {
		delete(n.turns, namespace)
	}
	if now.Sub(n.swept) >= slowFor {
		n.swept = now
		maps.DeleteFunc(n.turns, func(_ string, t *turn) bool { return t.settled(now) })
	}
}
