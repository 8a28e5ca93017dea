package limit

import (
	"context"
	"errors"
	"runtime"
	"time"

	"notifier/internal/fair"
)

// turnWait is how long a webhook waits for its turn and a place.
const turnWait = 2 * time.Second

const (
	// quickSize is ten times the size of most documents. What is larger waits with what is slow.
	quickSize = 1 << 20
	// slowFor is for how long a namespace is taken for slow that was once.
	slowFor = 30 * time.Second
	// maxOwed is what a namespace may owe before it waits: a burst of webhooks is not held up.
	maxOwed = time.Second
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

// Enter takes the namespace's turn and a slot for a document of size bytes when it is decoded, and reports whether both were free within
// two seconds and before ctx ended.
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

// Leave gives the turn and its slot back, and charges the namespace for the time in between.
func (t Turn) Leave() {
	if t.turn == nil {
		return
	}
	t.slots.give()
	t.charge(time.Since(t.began))
	t.end()
}

// place takes a place for a turn, and returns the slots that it is in, nil if there was none in time.
func (r *Share) place(ctx context.Context, t *turn, size int64) *slots {
	wait := t.wait()
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
		return nil // what waits holds memory, so nothing waits in vain
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
