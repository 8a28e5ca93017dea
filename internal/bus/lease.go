package bus

import (
	"context"
	"encoding/json"
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
	// leaseHold is how long a renewal lasts for the worker, from when it was sent. The others wait for leaseWait, from when they read it, so
	// that a worker whose connection is cut finds its term over clearly before another begins one.
	leaseHold  = 2250 * time.Millisecond
	leaseWait  = 3 * time.Second
	leaseRenew = 500 * time.Millisecond
	// leasePoll is how often the others read the lease. Repeated reads, unlike a watch, need no care when the server is restarted or the
	// connection changes.
	leasePoll   = 250 * time.Millisecond
	leaseAnswer = leaseHold / 2 // bounds one request
	releaseTime = time.Second
	// leaseWarning is the least time between two warnings that a lease cannot be had. It is tried at each leasePoll.
	leaseWarning = 10 * time.Second

	// keyLease and keyCrashes are the entries of the bucket.
	keyLease   = "lease"
	keyCrashes = "deaths"
)

// errTermLost says that another replica has taken the lease.
var errTermLost = errors.New("another replica is the worker")

// lease decides which replica is the worker. It is one entry of a bucket, taken and renewed by compare-and-set, so that of two replicas
// that see different states one succeeds. Alone on the embedded server a process takes it at once and never renews it.
//
// Any number of calls work in one term. The lease is sought while there is a call, and released when the last one has returned.
type lease struct {
	kv    jetstream.KeyValue
	self  string
	alone bool
	log   *slog.Logger
	// begin prepares a term before any call works in it. died is true when the last worker did not release the lease.
	begin func(ctx context.Context, died bool) error

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

// leaseRecord is the entry of the bucket.
type leaseRecord struct {
	// Holder is the worker, empty when the last one released the lease.
	Holder string `json:"holder,omitempty"`
	Term   uint64 `json:"term"`

	revision uint64
}

func newLease(kv jetstream.KeyValue, self string, alone bool, log *slog.Logger) *lease {
	l := &lease{
		kv: kv, self: self, alone: alone, log: log, changed: make(chan struct{}),
		begin: func(context.Context, bool) error { return nil },
	}
	l.answered.Store(time.Now().UnixNano())
	return l
}

// join adds a call that works in the terms.
func (l *lease) join(ctx context.Context) {
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
func (l *lease) leave() {
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
func (l *lease) await(ctx context.Context) *term {
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

func (l *lease) set(t *term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term = t
	close(l.changed)
	l.changed = make(chan struct{})
}

// held reports whether this replica is the worker.
func (l *lease) held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term != nil && l.term.lasts()
}

// run takes the lease, and renews it, until ctx ends.
func (l *lease) run(ctx context.Context) {
	for {
		t := l.acquire(ctx)
		if t == nil {
			return
		}
		l.log.Info("this replica is the worker", "term", t.number)
		l.set(t)
		l.renew(ctx, t)
		l.set(nil)
		close(t.ended)
		t.working.Wait()
		l.release(ctx, t)
		l.log.Info("this replica is no longer the worker", "term", t.number)
	}
}

// acquire waits until the lease is free, or was not renewed for leaseWait, and takes it. It returns nil when ctx ends.
func (l *lease) acquire(ctx context.Context) *term {
	var seen uint64
	var since time.Time
	warnings := rate.Sometimes{Interval: leaseWarning}
	for ; ctx.Err() == nil; _ = fair.Sleep(ctx, leasePoll) {
		r, err := l.read(ctx)
		if err != nil {
			if ctx.Err() == nil {
				warnings.Do(func() { l.log.Warn("cannot read the worker's lease, trying again", "error", err) })
			}
			continue
		}
		if r.revision != seen {
			seen, since = r.revision, time.Now()
			l.refused.Store(0) // another's write
		}
		// An entry of this replica is of a term that is over, or of an attempt whose answer was lost.
		free := r.Holder == "" || r.Holder == l.self || l.alone
		if !free && time.Since(since) < leaseWait {
			continue
		}
		t, err := l.take(ctx, r)
		if err == nil {
			return t
		}
		if ctx.Err() == nil && !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			warnings.Do(func() { l.log.Warn("cannot become the worker, trying again", "error", err) })
		}
	}
	return nil
}

// take begins a term, if the lease is still as it was read.
func (l *lease) take(ctx context.Context, r leaseRecord) (*term, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseHold)
	defer cancel()
	sent := time.Now()
	if r.Holder != l.self { // else an earlier attempt has set it
		l.died = r.Holder != ""
	}
	t := &term{number: r.Term + 1, ended: make(chan struct{})}
	if !l.alone {
		t.extend(sent)
	}
	var err error
	if t.revision, err = l.write(ctx, leaseRecord{Holder: l.self, Term: t.number, revision: r.revision}); err != nil {
		return nil, err
	}
	if err := l.begin(ctx, l.died); err != nil {
		return nil, err
	}
	l.died = false
	return t, nil
}

// renew renews the lease until ctx ends or the term is over.
func (l *lease) renew(ctx context.Context, t *term) {
	if l.alone {
		<-ctx.Done()
		return
	}
	for pause := max(0, time.Until(t.until.Load().Add(leaseRenew-leaseHold))); t.lasts(); {
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
			l.log.Warn("the worker's lease was lost", "error", err)
			return
		}
		pause = max(0, leaseRenew-time.Since(sent)) // a slow server is asked again at once
		if err != nil && ctx.Err() == nil {
			l.log.Warn("cannot renew the worker's lease", "error", err)
			pause = leasePoll
		}
	}
	l.log.Warn("the worker's lease has lapsed")
}

// renewOnce prolongs a term that lasts until the given time. It does not if the term is over when the answer arrives: calls in it may have
// ended.
func (l *lease) renewOnce(ctx context.Context, t *term, until time.Time) error {
	sent := time.Now()
	ctx, cancel := context.WithTimeout(ctx, min(leaseAnswer, time.Until(until)))
	defer cancel()
	revision, err := l.write(ctx, leaseRecord{Holder: l.self, Term: t.number, revision: t.revision})
	if err == nil {
		t.revision = revision
		if t.lasts() {
			t.extend(sent)
		}
		return nil
	}
	if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return err
	}
	// Another took it, or the answer to an earlier renewal was lost.
	r, err := l.read(ctx)
	if err != nil {
		return err
	}
	if r.Holder != l.self || r.Term != t.number {
		return errTermLost
	}
	t.revision = r.revision
	return nil
}

// release frees the lease, so that the next worker need not wait, unless another has taken it.
func (l *lease) release(ctx context.Context, t *term) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	for ctx.Err() == nil {
		_, err := l.write(ctx, leaseRecord{Term: t.number, revision: t.revision})
		if err == nil {
			return
		}
		r, readErr := l.read(ctx)
		if readErr == nil && (r.Holder != l.self || r.Term != t.number) {
			return
		}
		if readErr == nil {
			t.revision = r.revision
		}
		l.log.Warn("cannot release the worker's lease, others wait until it lapses", "error", err)
		_ = fair.Sleep(ctx, leasePoll)
	}
}

func (l *lease) read(ctx context.Context) (leaseRecord, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseAnswer)
	defer cancel()
	e, err := l.kv.Get(ctx, keyLease)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		l.noteAnswer()
		return leaseRecord{}, nil
	}
	if err != nil {
		return leaseRecord{}, fmt.Errorf("read lease: %w", err)
	}
	l.noteAnswer()
	var r leaseRecord
	if json.Unmarshal(e.Value(), &r) != nil {
		r = leaseRecord{} // an entry that cannot be read counts as free
	}
	r.revision = e.Revision()
	return r, nil
}

// write replaces the entry if its revision is r's.
func (l *lease) write(ctx context.Context, r leaseRecord) (uint64, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return 0, fmt.Errorf("encode lease: %w", err)
	}
	revision, err := l.kv.Update(ctx, keyLease, body, r.revision)
	if err != nil {
		if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			l.refused.CompareAndSwap(0, time.Now().UnixNano())
		}
		return 0, fmt.Errorf("write lease: %w", err)
	}
	l.refused.Store(0)
	l.noteAnswer()
	return revision, nil
}

func (l *lease) noteAnswer() { l.answered.Store(time.Now().UnixNano()) }

// check returns an error when a call of this replica needs the lease and the bucket does not answer, or stores nothing. A server without
// space still answers every read.
func (l *lease) check(now time.Time) error {
	l.mu.Lock()
	wanted := l.calls > 0 && !l.alone
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
