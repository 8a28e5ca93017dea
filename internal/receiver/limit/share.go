package limit

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"notifier/internal/fair"
)

// turnWait bounds the wait of a webhook for its turn and a place.
const turnWait = 2 * time.Second

const (
	// quickSize is ten times the size of most documents. Larger ones wait for each other.
	quickSize = 1 << 20
	// maxOwed is the time that a namespace may use before it waits, so that a burst of webhooks is not delayed.
	maxOwed = time.Second
	// mayCompile is the time that a namespace may compile in advance. It is far more than all seriously meant expressions take, so that a
	// start delays no namespace.
	mayCompile = 5 * time.Second
	// maxPutOff bounds one delay of a namespace's compiling. After it the work is requested again, however much is before it.
	maxPutOff = time.Minute
)

// ErrNoTurn says that filters, the expressions over a token's claims, the check of a slow signature, or the parsing of a body could not
// begin in time. It is no failure of theirs.
var ErrNoTurn = errors.New("no turn for expressions in time")

// Share divides processor time, and memory, among namespaces for what tenants and senders make long: filters, the expressions over a token's
// claims, the check of slow signatures, the parsing of bodies (NewShare), and what tenants have compiled (NewCompileShare). The work of one
// namespace is done one after the other and is charged for its time, so that expensive work delays its own namespace, and that of namespaces
// whose work was slow delays each other's. Share is safe for concurrent use.
type Share struct {
	// quick are the places for work. Work on a large document has the one of large instead.
	quick, large *fair.Capacity

	// working has the turn of each namespace: it works on one thing at a time.
	working *fair.Capacities[string]
	time    *fair.Share
	// slow is for one of the namespaces whose work was slow lately.
	slow *fair.Capacity

	mu   sync.Mutex
	past *simplelru.LRU[string, past]
}

// NewShare returns the Share of the webhooks of all Receivers of the process. In memory at one time are one document of up to the greatest
// size, and two documents of up to 1 MiB for each of GOMAXPROCS.
func NewShare() *Share { return newShare(2*runtime.GOMAXPROCS(0), maxOwed) }

// NewCompileShare returns the Share of the process for compiling what tenants write: a quarter of all processors and at least one.
func NewCompileShare() *Share { return newShare(max(1, runtime.GOMAXPROCS(0)/4), mayCompile) }

// newShare returns a Share of a number of places, in which each namespace may use atOnce before it waits.
func newShare(places int, atOnce time.Duration) *Share {
	return &Share{
		quick: fair.NewCapacity(int64(places)), large: fair.NewCapacity(1), slow: fair.NewCapacity(1),
		working: fair.NewCapacities[string](nil, 1, 0),
		time:    fair.NewShare(fair.ShareOptions{Window: timeShare * atOnce, Namespace: atOnce}),
		past:    fair.NewLRU[string, past](maxPast),
	}
}

// Enter takes the namespace's turn and a place for a document whose decoded size is size bytes. It reports whether both were free within two
// seconds and before ctx ended. A nil Share has both free at any time.
func (r *Share) Enter(ctx context.Context, namespace string, size int64) (t *Turn, ok bool) {
	if r == nil {
		return nil, true
	}
	ctx, cancel := context.WithTimeout(ctx, turnWait)
	defer cancel()
	t, err := r.take(ctx, namespace)
	if err != nil {
		return nil, false
	}
	if !t.enter(ctx, size) {
		t.Leave()
		return nil, false
	}
	return t, true
}

func (t *Turn) enter(ctx context.Context, size int64) bool {
	wait := t.wait()
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
		return false // a waiting webhook uses memory, so none waits in vain
	}
	if fair.Sleep(ctx, wait) != nil {
		return false
	}
	if size > quickSize {
		return t.occupy(ctx, t.share.large)
	}
	return t.occupy(ctx, t.share.quick)
}

// Compile calls compile in the namespace's turn, at a free place. If the namespace has used up its time, it returns the delay instead,
// without a call. The error is that of ctx.
func (r *Share) Compile(ctx context.Context, namespace string, compile func()) (putOff time.Duration, err error) {
	t, err := r.take(ctx, namespace)
	if err != nil {
		return 0, err
	}
	defer t.Leave()
	if putOff := t.putOff(time.Now()); putOff > 0 {
		return putOff, nil
	}
	if !t.occupy(ctx, r.quick) {
		return 0, context.Cause(ctx)
	}
	compile()
	return 0, nil
}
