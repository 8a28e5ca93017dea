// Package lease decides which replica is the worker. A lease is one entry of a bucket, taken and renewed by compare-and-set, so that of two
// replicas that see different states one succeeds. The time from taking it to losing it is a term.
//
// For the worker a renewal counts from when it was sent. The others wait longer, from when they read it, so a worker that is stopped, slow
// or cut off finds its term over before another begins one, whatever the clocks of the two. A term that is over never goes on. It ends for
// its calls before the lease is released, and the lease is released when the last of them has returned.
package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"notifier/internal/fair"
)

const (
	// hold is how long a renewal lasts for the worker, from when it was sent. The others wait for wait, from when they read it, so that a
	// worker whose connection is cut finds its term over clearly before another begins one.
	hold       = 2250 * time.Millisecond
	wait       = 3 * time.Second
	renewEvery = 500 * time.Millisecond
	// readEvery is how often the others read the lease. Repeated reads, unlike a watch, need no care when the server is restarted or the
	// connection changes.
	readEvery   = 250 * time.Millisecond
	answerTime  = hold / 2 // bounds one request
	releaseTime = time.Second
	// warnEvery is the least time between two warnings that a lease cannot be had or renewed. It is tried at each readEvery.
	warnEvery = 10 * time.Second
	// staleAfter is how long the bucket may not answer, or refuse to store.
	staleAfter = 10 * time.Second

	// key is that of the entry.
	key = "lease"
)

// errTermLost says that another replica has taken the lease, or may have.
var errTermLost = errors.New("another replica is the worker")

// ErrStopped is returned by Work when a call returned without an error although its term lasts.
var ErrStopped = errors.New("work ended although this replica is the worker")

// Options are the settings of a Lease.
type Options struct {
	Bucket jetstream.KeyValue
	// Self is the name of this replica.
	Self string
	// Alone is true for the only process of its server: it takes the lease at once and never renews it.
	Alone bool
	Log   *slog.Logger
	// Begin prepares a term before any call works in it. It is told whether the last worker died: it did not release the lease.
	Begin func(ctx context.Context, died bool) error
}

// Lease is a replica's part in the decision. Any number of calls work in one term. The lease is sought while there is a call, and released
// when the last one has returned.
type Lease struct {
	opts Options

	mu      sync.Mutex
	calls   int
	stop    context.CancelFunc
	stopped chan struct{}
	term    *term         // nil while this replica is not the worker
	changed chan struct{} // closed and replaced when term changes

	// died is true when the worker before this replica's next term did not release the lease. Only run uses it.
	died bool

	answered atomic.Int64 // when the bucket last answered, in nanoseconds since the epoch
	// refused is since when no write succeeded, of this replica or another, 0 if the last one did.
	refused atomic.Int64
}

// New returns a lease that nobody seeks yet.
func New(o Options) *Lease {
	l := &Lease{opts: o, changed: make(chan struct{})}
	l.answered.Store(time.Now().UnixNano())
	return l
}

// join adds a call that works in the terms.
func (l *Lease) join(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if l.calls > 1 {
		return
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx)) // other calls may outlive this one
	before, stopped := l.stopped, make(chan struct{})
	l.stop, l.stopped = stop, stopped
	go func() { // joined by leave
		defer close(stopped)
		if before != nil {
			<-before
		}
		l.run(ctx)
	}()
}

// leave removes a call. With the last one it returns when the lease was released.
func (l *Lease) leave() {
	l.mu.Lock()
	l.calls--
	last, stop, stopped := l.calls == 0, l.stop, l.stopped
	l.mu.Unlock()
	if last {
		stop()
		<-stopped
	}
}

// await returns the term in which this replica is the worker, and counts the caller among the calls that work in it. It returns nil when
// ctx ends.
func (l *Lease) await(ctx context.Context) *term {
	for ctx.Err() == nil {
		l.mu.Lock()
		t, changed := l.term, l.changed
		if t != nil && t.lasts() {
			t.working.Add(1)
			l.mu.Unlock()
			return t
		}
		l.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
	return nil
}

func (l *Lease) set(t *term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term = t
	close(l.changed)
	l.changed = make(chan struct{})
}

// Held reports whether this replica is the worker.
func (l *Lease) Held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term != nil && l.term.lasts()
}

// run takes the lease, and renews it, until ctx ends.
func (l *Lease) run(ctx context.Context) {
	for {
		t := l.acquire(ctx)
		if t == nil {
			return
		}
		l.opts.Log.Info("this replica is the worker", "term", t.number)
		l.set(t)
		l.renew(ctx, t)
		l.set(nil)
		close(t.ended)
		t.working.Wait()
		l.release(ctx, t)
		l.opts.Log.Info("this replica is no longer the worker", "term", t.number)
	}
}

// acquire waits until the lease is free, or was not renewed for wait, and takes it. One that is missing at the first read is taken at once, early:
// it may have been deleted. It returns nil when ctx ends.
func (l *Lease) acquire(ctx context.Context) *term {
	var seen uint64
	var since time.Time
	warnings := rate.Sometimes{Interval: warnEvery}
	for ; ctx.Err() == nil; _ = fair.Sleep(ctx, readEvery) {
		r, err := l.read(ctx)
		if err != nil {
			if ctx.Err() == nil {
				warnings.Do(func() { l.opts.Log.Warn("cannot read the worker's lease, trying again", "error", err) })
			}
			continue
		}
		if r.revision != seen {
			seen, since = r.revision, time.Now()
			l.refused.Store(0) // another's write
		}
		// An entry of this replica is of a term that is over, or of an attempt whose answer was lost. One that is gone may have been deleted
		// during a term.
		free := r.Holder == "" && r.revision > 0 || r.Holder == l.opts.Self || l.opts.Alone || since.IsZero()
		lapsed := !since.IsZero() && time.Since(since) >= wait // and so have former terms
		if !free && !lapsed {
			continue
		}
		r.Early = (r.revision == 0 || r.Early && !lapsed) && !l.opts.Alone // a missing one may have been there between two reads
		t, err := l.take(ctx, r)
		if err == nil {
			return t
		}
		if ctx.Err() == nil && !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			warnings.Do(func() { l.opts.Log.Warn("cannot become the worker, trying again", "error", err) })
		}
	}
	return nil
}

// take begins a term, if the lease is still as it was read.
func (l *Lease) take(ctx context.Context, r record) (*term, error) {
	sent := time.Now()
	if r.Holder != l.opts.Self { // else an earlier attempt has set it
		l.died = r.Holder != ""
	}
	t := &term{number: r.Term + 1, revision: r.revision, ended: make(chan struct{})}
	t.early.Store(r.Early)
	if !l.opts.Alone {
		t.begin(sent)
	}
	writing, cancel := context.WithTimeout(ctx, hold)
	defer cancel()
	var err error
	if t.revision, err = l.write(writing, t.record(l.opts.Self)); err != nil {
		return nil, err
	}
	if t.revision == 1 { // the bucket is new
		t.early.Store(false)
	}
	if err := l.prepare(ctx, t); err != nil {
		if ctx.Err() != nil && !l.died { // a death is counted by the next worker
			l.release(ctx, t)
		}
		return nil, err
	}
	l.died = false
	return t, nil
}

// prepare waits for the end of a former term, if the lease was taken early, and calls Begin. It renews the lease meanwhile: after a crash Begin
// makes many requests, and the server may be slow.
func (l *Lease) prepare(ctx context.Context, t *term) error {
	ctx, cancel := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() {
		defer cancel() // the term is over
		l.renew(ctx, t)
	})
	var err error
	if t.early.Load() {
		err = fair.Sleep(ctx, hold)
		t.early.Store(err != nil)
	}
	if err == nil {
		err = l.opts.Begin(ctx, l.died)
	}
	cancel()
	renewing.Wait()
	if err == nil && !t.lasts() {
		err = errTermLost
	}
	return err
}

// renew renews the lease until ctx ends or the term is over.
func (l *Lease) renew(ctx context.Context, t *term) {
	if l.opts.Alone {
		<-ctx.Done()
		return
	}
	warnings := rate.Sometimes{Interval: warnEvery}
	for pause := max(0, time.Until(t.until.Load().Add(renewEvery-hold))); t.lasts(); {
		until := *t.until.Load()
		if fair.Sleep(ctx, min(pause, time.Until(until))) != nil {
			return
		}
		if !t.lasts() {
			break
		}
		sent := time.Now()
		err := l.renewOnce(ctx, t, until)
		if errors.Is(err, errTermLost) {
			l.opts.Log.Warn("the worker's lease was lost", "error", err)
			return
		}
		pause = max(0, renewEvery-time.Since(sent)) // a slow server is asked again at once
		if err != nil && ctx.Err() == nil {
			warnings.Do(func() { l.opts.Log.Warn("cannot renew the worker's lease, trying again", "error", err) })
			pause = readEvery
		}
	}
	l.opts.Log.Warn("the worker's lease has lapsed")
}

// renewOnce prolongs a term that lasts until the given time. It does not if the term is over when the answer arrives: calls in it may have
// ended.
func (l *Lease) renewOnce(ctx context.Context, t *term, until time.Time) error {
	sent := time.Now()
	ctx, cancel := context.WithTimeout(ctx, min(answerTime, time.Until(until)))
	defer cancel()
	revision, err := l.write(ctx, t.record(l.opts.Self))
	if err == nil {
		t.revision = revision
		t.prolong(sent)
		return nil
	}
	if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return err
	}
	return l.readAgain(ctx, t) // another took it, or the answer to an earlier renewal was lost
}

// readAgain reads the revision of the lease, or returns errTermLost if the lease is no longer of the term.
func (l *Lease) readAgain(ctx context.Context, t *term) error {
	r, err := l.read(ctx)
	if err != nil {
		return err
	}
	if r.Holder != l.opts.Self || r.Term != t.number {
		return errTermLost
	}
	t.revision = r.revision
	return nil
}

// release frees the lease, so that the next worker need not wait, unless another has taken it.
func (l *Lease) release(ctx context.Context, t *term) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	for ctx.Err() == nil {
		_, err := l.write(ctx, t.record(""))
		if err == nil || errors.Is(l.readAgain(ctx, t), errTermLost) {
			return
		}
		l.opts.Log.Warn("cannot release the worker's lease, others wait until it lapses", "error", err)
		_ = fair.Sleep(ctx, readEvery)
	}
}

// Check returns an error when a call of this replica needs the lease and the bucket does not answer, or stores nothing. A server without
// space still answers every read.
func (l *Lease) Check(now time.Time) error {
	l.mu.Lock()
	wanted := l.calls > 0 && !l.opts.Alone
	l.mu.Unlock()
	if silent := now.Sub(time.Unix(0, l.answered.Load())); wanted && silent > staleAfter {
		return fmt.Errorf("the worker's lease has not been read for %s", silent.Truncate(time.Second))
	}
	since := l.refused.Load()
	if failing := now.Sub(time.Unix(0, since)); wanted && since != 0 && failing > staleAfter {
		return fmt.Errorf("the worker's lease has not been written for %s: the server stores nothing, its disk may be full", failing.Truncate(time.Second))
	}
	return nil
}
