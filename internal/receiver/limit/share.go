package limit

import (
	"context"
	"errors"
	"runtime"
	"time"

	"notifier/internal/fair"
)

// turnWait bounds the wait of a webhook for its turn and a place.
const turnWait = 2 * time.Second

const (
	// quickSize is ten times the size of most documents. Larger ones wait together with slow work.
	quickSize = 1 << 20
	// slowFor is the time for which a namespace counts as slow after slow work.
	slowFor = 30 * time.Second
	// maxOwed is the time that a namespace may use before it waits, so that a burst of webhooks is not delayed.
	maxOwed = time.Second
)

// FilterTime bounds the time of all filters of one webhook together, and of all expressions over a token's claims. It is far more than any
// seriously meant filter needs, so that none fails on a busy machine.
const FilterTime = 250 * time.Millisecond

// ErrNoTurn says that filters, or the expressions over a token's claims, could not begin in time. It is no failure of theirs.
var ErrNoTurn = errors.New("no turn for expressions in time")

// Share divides memory and processor time among namespaces for long work on authentic webhooks: filters, the expressions over a token's
// claims, the decoding of CDEvents. The webhooks of one namespace are processed one after the other and are charged for their time, so that
// expensive ones delay their own namespace. Those with a large document, and those of a namespace whose work was slow, share one slot apart
// from the slots of all others. So in memory at one time are one document of up to the greatest size, and two documents of up to 1 MiB for
// each of GOMAXPROCS. Share is safe for concurrent use; a nil Share bounds nothing.
type Share struct {
	quick, slow slots
	turns       *turns
}

// NewShare returns the Share of all Receivers of the process.
func NewShare() *Share {
	return &Share{quick: slots{free: 2 * runtime.GOMAXPROCS(0)}, slow: slots{free: 1}, turns: newTurns(maxOwed)}
}

// Turn is a namespace's turn at a slot, until Leave.
type Turn struct {
	*turn
	slots *slots
	began time.Time
}

// Enter takes the namespace's turn and a slot for a document whose decoded size is size bytes. It reports whether both were free within two
// seconds and before ctx ended.
func (r *Share) Enter(ctx context.Context, namespace string, size int64) (t Turn, ok bool) {
	if r == nil {
		return Turn{}, true
	}
	ctx, cancel := context.WithTimeout(ctx, turnWait)
	defer cancel()
	next, err := r.turns.take(ctx, namespace)
	if err != nil {
		return Turn{}, false
	}
	place := r.place(ctx, next, size)
	if place == nil {
		next.end()
		return Turn{}, false
	}
	return Turn{next, place, time.Now()}, true
}

// Leave releases the turn and its slot, and charges the namespace for the time in between.
func (t Turn) Leave() {
	if t.turn == nil {
		return
	}
	t.slots.give()
	t.charge(time.Since(t.began))
	t.end()
}

// place takes a place for a turn, and returns its slots, nil if none was free in time.
func (r *Share) place(ctx context.Context, t *turn, size int64) *slots {
	wait := t.wait()
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
		return nil // a waiting webhook uses memory, so none waits in vain
	}
	if fair.Sleep(ctx, wait) != nil {
		return nil
	}
	l := &r.quick
	if size > quickSize || time.Since(t.slow) < slowFor {
		l = &r.slow
	}
	if !l.take(ctx, t.slow) {
		return nil
	}
	return l
}
