package limit

import (
	"context"
	"time"

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

// past is the record of a namespace's work.
type past struct {
	took time.Duration // the duration of the last work
	slow time.Time     // the time of the last slow work
	// again is the end of the last delay of compiling.
	again time.Time
}

// Turn is a namespace's turn, until Leave.
type Turn struct {
	past
	use       fair.KeyUse[string]
	share     *Share
	namespace string
	// among is its use of share.slow, and place its place since began, which is zero for none.
	among, place fair.Use
	began        time.Time
}

// take waits for the turn of a namespace. The error is that of ctx.
func (r *Share) take(ctx context.Context, namespace string) (*Turn, error) {
	use, err := r.working.Acquire(ctx, namespace, 1)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before, _ := r.past.Get(namespace)
	return &Turn{past: before, use: use, share: r, namespace: namespace}, nil
}

// wait returns the time until the namespace may work again, zero if it may now.
func (t *Turn) wait() time.Duration { return t.share.time.Wait(t.namespace) }

// putOff returns the delay of the namespace's work, zero for none. Each delay is longer than the one before, so that a thousand delayed
// ones do not return at once.
func (t *Turn) putOff(now time.Time) time.Duration {
	wait := t.wait()
	if wait <= 0 {
		return 0
	}
	wait = min(max(wait, t.again.Sub(now)+timeShare*t.took), maxPutOff)
	t.again = now.Add(wait)
	t.remember()
	return wait
}

// occupy takes a place, and reports whether one was free before ctx ended. Of the namespaces whose work was slow lately, one at a time waits
// for a place or has one, so that others wait for the work of one of them at most. The namespace is charged for the time until Leave.
func (t *Turn) occupy(ctx context.Context, places *fair.Capacity) bool {
	var err error
	if time.Since(t.slow) < slowFor {
		if t.among, err = t.share.slow.Acquire(ctx, 1); err != nil {
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
	t.share.time.Spend(t.namespace, t.took)
	t.remember()
}

func (t *Turn) remember() {
	t.share.mu.Lock()
	defer t.share.mu.Unlock()
	t.share.past.Add(t.namespace, t.past)
}
