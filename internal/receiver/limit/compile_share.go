package limit

import (
	"context"
	"runtime"
	"time"
)

const (
	// mayCompile is what a namespace may owe for compiling. It is far beyond what all the expressions take that somebody wrote in
	// earnest, so that a start puts nobody off.
	mayCompile = 5 * time.Second
	// maxPutOff bounds for how long a namespace's work is put off at once. It is asked for again then, however much comes before it.
	maxPutOff = time.Minute
)

// CompileShare divides the processors that compile the expressions of Receivers, a quarter of all and at least one. Namespaces take
// turns, and those that were slow wait for the others. The work of a namespace that used up its time is put off.
type CompileShare struct {
	slots slots
	turns *turns
}

// NewCompileShare returns the CompileShare of all Receivers of the process.
func NewCompileShare() *CompileShare {
	return &CompileShare{slots: slots{free: max(1, runtime.GOMAXPROCS(0)/4)}, turns: newTurns(mayCompile)}
}

// Compile calls compile in the namespace's turn, at a free place. If the namespace's work is put off it does not, and says for how
// long. The error is that of ctx.
func (r *CompileShare) Compile(ctx context.Context, namespace string, compile func()) (putOff time.Duration, err error) {
	t, err := r.turns.take(ctx, namespace)
	if err != nil {
		return 0, err
	}
	defer t.end()
	if putOff := t.putOff(time.Now()); putOff > 0 {
		return putOff, nil
	}
	if !r.slots.take(ctx, t.slow) {
		return 0, context.Cause(ctx)
	}
	began := time.Now()
	defer func() {
		r.slots.give()
		t.charge(time.Since(began))
	}()
	compile()
	return 0, nil
}

// putOff is for how long the namespace's work is put off, zero for not at all. One is put off for longer than the one before, so that a
// thousand do not come again at once to be put off again.
func (t *turn) putOff(now time.Time) time.Duration {
	wait := t.wait()
	if wait <= 0 {
		return 0
	}
	wait = min(max(wait, t.again.Sub(now)+timeShare*t.took), maxPutOff)
	t.again = now.Add(wait)
	t.remember()
	return wait
}
