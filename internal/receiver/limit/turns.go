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
	// quickTime is a hundred times the duration of most work of a webhook. Longer work is slow, and its namespace for slowFor after it.
	quickTime = 20 * time.Millisecond
	slowFor   = 30 * time.Second
	// maxPast bounds the namespaces whose past work is remembered; the longest idle one is evicted.
	maxPast = 1 << 14
)

// turns are the turns of namespaces: each namespace works on one thing at a time and is charged for it.
type turns struct {
	working *fair.Capacities[string]
	time    *fair.Share
	// slow is for one of the namespaces whose work was slow lately.
	slow *fair.Capacity

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
		slow:    fair.NewCapacity(1),
		working: fair.NewCapacities[string](nil, 1, 0),
		time:    fair.NewShare(fair.ShareOptions{Window: timeShare * atOnce, Namespace: atOnce}),
		past:    fair.NewLRU[string, past](maxPast),
	}
}

// Turn is a namespace's turn, until Leave.
type Turn struct {
	past
	use       fair.KeyUse[string]
	turns     *turns
	namespace string
	// among is its use of turns.slow, and place its place since began, which is zero for none.
	among, place fair.Use
	began        time.Time
}

// take waits for the turn of a namespace. The error is that of ctx.
func (t *turns) take(ctx context.Context, namespace string) (*Turn, error) {
	use, err := t.working.Acquire(ctx, namespace, 1)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	before, _ := t.past.Get(namespace)
	return &Turn{past: before, use: use, turns: t, namespace: namespace}, nil
}

// wait returns the time until the namespace may work again, zero if it may now.
func (t *Turn) wait() time.Duration { return t.turns.time.Wait(t.namespace) }

// occupy takes a place, and reports whether one was free before ctx ended. Of the namespaces whose work was slow lately, one at a time waits
// for a place or has one, so that others wait for the work of one of them at most. The namespace is charged for the time until Leave.
func (t *Turn) occupy(ctx context.Context, places *fair.Capacity) bool {
	var err error
	if time.Since(t.slow) < slowFor {
		if t.among, err = t.turns.slow.Acquire(ctx, 1); err != nil {
			return false
		}
	}
	if t.place, err = places.Acquire(ctx, 1); err != nil {
		return false
	}
	t.began = time.Now()
	return true
}

// Leave frees the turn for the namespace's next work, and its place.
func (t *Turn) Leave() {
	if t == nil {
		return
	}
	t.place.Release()
	t.among.Release()
	if !t.began.IsZero() {
		t.charge(time.Since(t.began))
	}
	t.use.Release()
}

// charge notes the duration of work. It charges at most twice FilterTime, so that a suspended machine costs little.
func (t *Turn) charge(took time.Duration) {
	if took > quickTime {
		t.slow = time.Now()
	}
	t.took = min(took, 2*FilterTime)
	t.turns.time.Spend(t.namespace, t.took)
	t.remember()
}

func (t *Turn) remember() {
	t.turns.mu.Lock()
	defer t.turns.mu.Unlock()
	t.turns.past.Add(t.namespace, t.past)
}
