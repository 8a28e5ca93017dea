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

// Turn is a namespace's turn, until Leave.
type Turn struct {
	past
	use       fair.KeyUse[string]
	turns     *turns
	namespace string
	// slots has the slot that it occupies since began, nil for none.
	slots *slots
	began time.Time
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

// occupy takes a slot, and reports whether one was free before ctx ended. The namespace is charged for the time until Leave.
func (t *Turn) occupy(ctx context.Context, s *slots) bool {
	if !s.take(ctx, t.slow) {
		return false
	}
	t.slots, t.began = s, time.Now()
	return true
}

// Leave frees the turn for the namespace's next work, and its slot.
func (t *Turn) Leave() {
	if t == nil {
		return
	}
	if t.slots != nil {
		t.slots.give()
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
