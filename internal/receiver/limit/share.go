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
	// quickSize is ten times the size of most documents. Larger ones wait for each other.
	quickSize = 1 << 20
	// maxOwed is the time that a namespace may use before it waits, so that a burst of webhooks is not delayed.
	maxOwed = time.Second
)

// FilterTime bounds the time of all filters of one webhook together, and of all expressions over a token's claims. It is far more than any
// seriously meant filter needs, so that none fails on a busy machine.
const FilterTime = 250 * time.Millisecond

// ErrNoTurn says that filters, the expressions over a token's claims, the check of a slow signature, or the parsing of a body could not
// begin in time. It is no failure of theirs.
var ErrNoTurn = errors.New("no turn for expressions in time")

// Share divides memory and processor time among namespaces for long work on authentic webhooks: filters, the expressions over a token's
// claims, the check of slow signatures, the parsing of bodies. The webhooks of one namespace are processed one after the other and are
// charged for their time, so that expensive ones delay their own namespace, and those of namespaces whose work was slow delay each other.
// Those with a large document have one place apart from the places of all others. So in memory at one time are one document of up to the
// greatest size, and two documents of up to 1 MiB for each of GOMAXPROCS. Share is safe for concurrent use; a nil Share bounds nothing.
type Share struct {
	quick, large *fair.Capacity
	turns        *turns
}

// NewShare returns the Share of all Receivers of the process.
func NewShare() *Share {
	return &Share{quick: fair.NewCapacity(int64(2 * runtime.GOMAXPROCS(0))), large: fair.NewCapacity(1), turns: newTurns(maxOwed)}
}

// Enter takes the namespace's turn and a place for a document whose decoded size is size bytes. It reports whether both were free within two
// seconds and before ctx ended.
func (r *Share) Enter(ctx context.Context, namespace string, size int64) (t *Turn, ok bool) {
	if r == nil {
		return nil, true
	}
	ctx, cancel := context.WithTimeout(ctx, turnWait)
	defer cancel()
	t, err := r.turns.take(ctx, namespace)
	if err != nil {
		return nil, false
	}
	if !r.occupy(ctx, t, size) {
		t.Leave()
		return nil, false
	}
	return t, true
}

func (r *Share) occupy(ctx context.Context, t *Turn, size int64) bool {
	wait := t.wait()
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
		return false // a waiting webhook uses memory, so none waits in vain
	}
	if fair.Sleep(ctx, wait) != nil {
		return false
	}
	if size > quickSize {
		return t.occupy(ctx, r.large)
	}
	return t.occupy(ctx, r.quick)
}
