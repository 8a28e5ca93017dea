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
	// quickTime is a hundred times the duration of most work of a webhook. Longer work is slow.
	quickTime = 20 * time.Millisecond
	// maxPast bounds the namespaces whose past work is remembered; the longest idle one is evicted.
	maxPast = 1 << 14
)

// turns are the turns of namespaces: each namespace works on one thing at a time and is charged for it.
type turns struct {
	working *fair.Capacities[string]
	time    *fair.Share

	mu   sync.Mutex
	past *simplelru.LRU[string, past]
}

// past is the record of a namespace's work.
type past struct {
	took time.Duration // the duration of the last work
	slow time.Time     // the time of the last slow work
	// again is the end of the last delay. Only a CompileShare uses it.
	again time.Time
}

// newTurns returns turns of namespaces that may use atOnce before they wait.
func newTurns(atOnce time.Duration) *turns {
	return &turns{
		working: fair.NewCapacities[string](nil, 1, 0),
		time:    fair.NewShare(fair.ShareOptions{Window: timeShare * atOnce, Namespace: atOnce}),
		past:    fair.NewLRU[string, past](maxPast),
	}
}

// turn is a namespace's turn, until its end.
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

// wait returns the time until the namespace may work again, zero if it may now.
func (t *turn) wait() time.Duration { return t.turns.time.Wait(t.namespace) }

// charge notes the duration of work. It charges at most twice FilterTime, so that a suspended machine costs little.
func (t *turn) charge(took time.Duration) {
	if took > quickTime {
		t.slow = time.Now()
	}
	t.took = min(took, 2*FilterTime)
	t.turns.time.Spend(t.namespace, t.took)
	t.remember()
}

// end frees the turn for the namespace's next work.
func (t *turn) end() { t.use.Release() }

func (t *turn) remember() {
	t.turns.mu.Lock()
	defer t.turns.mu.Unlock()
	t.turns.past.Add(t.namespace, t.past)
}
