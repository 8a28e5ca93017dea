package limit

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"notifier/internal/fair"
)

const (
	// A namespace may use a timeShare'th of one processor.
	timeShare = 4
	// quickTime is how long most work of a webhook takes a hundredth of. What takes longer is slow.
	quickTime = 20 * time.Millisecond
	// maxPast bounds the namespaces of which it is remembered what they did; the one that worked longest ago is forgotten.
	maxPast = 1 << 14
)

// turns are those of namespaces: each works on one thing at a time and is charged for it.
type turns struct {
	working *fair.Capacities[string]
	time    *fair.Share

	mu   sync.Mutex
	past *simplelru.LRU[string, past]
}

// past is what is remembered of a namespace's work.
type past struct {
	took time.Duration // the last time
	slow time.Time     // when it last was
	// again is when what was put off last may come again. A CompileShare puts off, a Share does not.
	again time.Time
}

// newTurns returns turns of namespaces that may use a time at once before they wait.
func newTurns(atOnce time.Duration) *turns {
	all, err := simplelru.NewLRU[string, past](maxPast, nil)
	if err != nil {
		panic(err) // it has no other fault than a size that is not positive
	}
	return &turns{
		working: fair.NewCapacities[string](nil, 1, 0),
		time:    fair.NewShare(fair.ShareOptions{Window: timeShare * atOnce, Namespace: atOnce}),
		past:    all,
	}
}

// turn is a namespace's, until it ends.
type turn struct {
	past
	use       fair.KeyUse[string]
	turns     *turns
	namespace string
}

// take waits for the turn of a namespace. The error is that of ctx.
func (t *turns) take(ctx context.Context, namespace string) (*turn, error) {
	use, err := t.working.Acquire(ctx, namespace, 1)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	before, _ := t.past.Get(namespace)
	return &turn{before, use, t, namespace}, nil
}

// wait is how long it takes until the namespace has time to use again, zero when it has.
func (t *turn) wait() time.Duration { return t.turns.time.Wait(t.namespace) }

// charge notes that work took so long. It does not pay for a machine that stood still.
func (t *turn) charge(took time.Duration) {
	if took > quickTime {
		t.slow = time.Now()
	}
	t.took = min(took, 2*FilterTime)
	t.turns.time.Spend(t.namespace, t.took)
	t.remember()
}

// end lets the namespace's next turn come.
func (t *turn) end() { t.use.Release() }

func (t *turn) remember() {
	t.turns.mu.Lock()
	defer t.turns.mu.Unlock()
	t.turns.past.Add(t.namespace, t.past)
}
