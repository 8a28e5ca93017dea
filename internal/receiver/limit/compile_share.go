package limit

import (
	"context"
	"runtime"
	"time"

	"notifier/internal/fair"
)

const (
	// mayCompile is the time that a namespace may compile in advance. It is far more than all seriously meant expressions take, so that a
	// start delays no namespace.
	mayCompile = 5 * time.Second
	// maxPutOff bounds one delay of a namespace's work. After it the work is requested again, however much is before it.
	maxPutOff = time.Minute
)

// CompileShare divides the processors that compile what tenants write, a quarter of all and at least one. Namespaces take turns,
// and recently slow ones one after the other. The work of a namespace that used up its time is delayed.
type CompileShare struct {
	places *fair.Capacity
	turns  *turns
}

// NewCompileShare returns the CompileShare of the process.
func NewCompileShare() *CompileShare {
	return &CompileShare{places: fair.NewCapacity(int64(max(1, runtime.GOMAXPROCS(0)/4))), turns: newTurns(mayCompile)}
}

// Compile calls compile in the namespace's turn, at a free place. If the namespace has used up its time, it returns the delay instead,
// without a call. The error is that of ctx.
func (r *CompileShare) Compile(ctx context.Context, namespace string, compile func()) (putOff time.Duration, err error) {
	t, err := r.turns.take(ctx, namespace)
	if err != nil {
		return 0, err
	}
	defer t.Leave()
	if putOff := t.putOff(time.Now()); putOff > 0 {
		return putOff, nil
	}
	if !t.occupy(ctx, r.places) {
		return 0, context.Cause(ctx)
	}
	compile()
	return 0, nil
}

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
