package lease

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"notifier/internal/event"
)

// term is a time without a gap in which this replica is the worker.
type term struct {
	number uint64
	until  atomic.Pointer[time.Time] // nil in a term that does not lapse

	early    atomic.Bool    // record.Early
	revision uint64         // of the lease
	ended    chan struct{}  // closed when it is over
	working  sync.WaitGroup // the calls that work in it
}

// lapsed is the end of a term that was seen to be over.
var lapsed time.Time

// lasts reports whether the term is not over, so that no other replica can be the worker. It takes no lock, since it is called before every
// send. A machine that sleeps stops its monotonic clock, so the wall clock is compared as well. A term that was once seen to be over is over
// for good, also if its renewal was being answered at that moment.
func (t *term) lasts() bool {
	for {
		until := t.until.Load()
		if until == nil {
			return true
		}
		now := time.Now()
		if now.Before(*until) && now.Round(0).Before(until.Round(0)) {
			return true
		}
		if t.until.CompareAndSwap(until, &lapsed) {
			return false
		}
	}
}

// begin has the term last from when the lease was asked for.
func (t *term) begin(sent time.Time) {
	until := sent.Add(hold)
	t.until.Store(&until)
}

// prolong has the term last from a renewal on, unless it is over. Only one goroutine may call it.
func (t *term) prolong(sent time.Time) {
	before, until := t.until.Load(), sent.Add(hold)
	if t.lasts() {
		t.until.CompareAndSwap(before, &until)
	}
}

// Work calls serve whenever this replica becomes the worker, until ctx ends. The context of serve ends with the term or with ctx, and
// carries the fence (event.Owned) if the term can lapse; the replica stays the worker until serve returns, as long as it can renew the lease.
//
// It returns an error only if serve returns before its context ends: the error of serve, or ErrStopped.
func (l *Lease) Work(ctx context.Context, serve func(ctx context.Context) error) error {
	l.join(ctx)
	defer l.leave()
	for {
		t := l.await(ctx)
		if t == nil {
			return nil
		}
		err := t.serve(ctx, serve)
		if ctx.Err() != nil {
			return nil
		}
		select {
		case <-t.ended:
		default:
			if err == nil {
				err = ErrStopped
			}
			return err
		}
	}
}

// serve makes one call in the term. await has counted it.
func (t *term) serve(ctx context.Context, serve func(ctx context.Context) error) error {
	defer t.working.Done()
	if t.until.Load() != nil { // a term that does not lapse needs no fence, which costs each send a write of its own for the body
		ctx = event.WithFence(ctx, t.lasts)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with ctx
		select {
		case <-t.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	return serve(ctx)
}
