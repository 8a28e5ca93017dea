package bus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event"
	"notifier/internal/fair"
)

// leaseBucket is a bucket with one key. slow is how long a write takes, and how long its answer takes after that.
type leaseBucket struct {
	jetstream.KeyValue
	slow time.Duration

	mu       sync.Mutex
	value    []byte
	revision uint64
	writes   int
}

type leaseEntry struct {
	jetstream.KeyValueEntry
	value    []byte
	revision uint64
}

func (e leaseEntry) Value() []byte    { return e.value }
func (e leaseEntry) Revision() uint64 { return e.revision }

func (k *leaseBucket) Get(context.Context, string) (jetstream.KeyValueEntry, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.revision == 0 {
		return nil, jetstream.ErrKeyNotFound
	}
	return leaseEntry{value: k.value, revision: k.revision}, nil
}

func (k *leaseBucket) Update(ctx context.Context, _ string, value []byte, revision uint64) (uint64, error) {
	if err := fair.Sleep(ctx, k.slow); err != nil {
		return 0, err
	}
	k.mu.Lock()
	now := k.revision
	if revision == now {
		k.value, k.revision = value, now+1
		k.writes++
	}
	k.mu.Unlock()
	if revision != now {
		return 0, jetstream.ErrKeyRevisionMismatch
	}
	return now + 1, fair.Sleep(ctx, k.slow)
}

func newTestLease(kv jetstream.KeyValue, self string) *lease {
	return newLease(kv, self, false, slog.New(slog.DiscardHandler))
}

// holdLease returns a replica's term, which ends when the returned function is called.
func holdLease(t *testing.T, l *lease) (*term, func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l.join(ctx)
	held := l.await(ctx)
	return held, func() {
		cancel()
		held.working.Done()
		l.leave()
	}
}

// awayBucket does not answer.
type awayBucket struct{ jetstream.KeyValue }

func (awayBucket) Get(context.Context, string) (jetstream.KeyValueEntry, error) {
	return nil, errors.New("away")
}

// Fails when each of the reads of an outage, four a second, is a line of the log.
func TestAnOutageOfTheLeaseIsALineInTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := newLease(awayBucket{}, "one", false, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, cancel := context.WithTimeout(t.Context(), 59*time.Second)
		defer cancel()
		l.acquire(ctx)
		if n := strings.Count(log.String(), "cannot read the worker's lease"); n != 6 {
			t.Errorf("%d lines in 59 s, want 6", n)
		}
	})
}

// A stopped process reads earlier answers when it continues. Fails when a renewal counts from when it is answered.
func TestARenewalCountsFromWhenItWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := &leaseBucket{slow: 500 * time.Millisecond}
		began := time.Now()
		held, leave := holdLease(t, newTestLease(kv, "one"))
		if until := held.until.Load().Sub(began); until != leaseHold {
			t.Errorf("the term that was begun lasts %s from its request", until)
		}
		for range 4 {
			before := *held.until.Load()
			for held.until.Load().Equal(before) {
				if !held.lasts() {
					t.Fatal("the term has lapsed")
				}
				_ = fair.Sleep(t.Context(), time.Millisecond)
			}
			if rest := time.Until(*held.until.Load()); rest > leaseHold-2*kv.slow {
				t.Errorf("after a renewal of %s the term lasts %s", 2*kv.slow, rest)
			}
		}
		leave()
	})
}

// A server that is slow for a moment does not count as lost. Fails when a renewal may take less than leaseAnswer, or when the pause between
// two is added to it.
func TestATermOutlivesASlowServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestLease(&leaseBucket{slow: 500 * time.Millisecond}, "one") // and as long again until it answers
		held, leave := holdLease(t, l)
		for range 200 {
			_ = fair.Sleep(t.Context(), 100*time.Millisecond)
			if !held.lasts() {
				t.Fatal("the term has lapsed")
			}
		}
		leave()
	})
}

// A term that has lapsed does not continue, although a later renewal would succeed, and the next one of the same replica is another. Fails
// when renew continues after the term is over.
func TestATermThatHasLapsedDoesNotGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := &brokenBucket{leaseBucket: &leaseBucket{}}
		l := newTestLease(kv, "one")
		held, leave := holdLease(t, l)
		kv.broken.Store(true)
		_ = fair.Sleep(t.Context(), leaseHold)
		synctest.Wait()
		if held.lasts() || l.held() {
			t.Error("the term lasts after leaseHold without a renewal")
		}
		select {
		case <-held.ended:
		default:
			t.Error("the calls of the term are not told that it is over")
		}
		kv.broken.Store(false)
		_ = fair.Sleep(t.Context(), leaseHold)
		if held.lasts() || l.held() {
			t.Error("the replica works again before the calls of the old term have returned")
		}
		leave()
		again, leave := holdLease(t, l)
		if again.number <= held.number {
			t.Errorf("term %d follows %d", again.number, held.number)
		}
		leave()
	})
}

// brokenBucket answers nothing while it is broken.
type brokenBucket struct {
	*leaseBucket
	broken atomic.Bool
}

func (k *brokenBucket) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	if k.broken.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return k.leaseBucket.Get(ctx, key)
}

func (k *brokenBucket) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if k.broken.Load() {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return k.leaseBucket.Update(ctx, key, value, revision)
}

// releases is the worker's bucket when the first write that releases the lease fails.
type releases struct {
	jetstream.KeyValue
	// stored is true when that write is carried out nevertheless.
	stored bool
	failed atomic.Bool
}

func (s *releases) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	var r leaseRecord
	if json.Unmarshal(value, &r) != nil || key != keyLease || r.Holder != "" || s.failed.Swap(true) {
		return s.KeyValue.Update(ctx, key, value, revision)
	}
	if s.stored {
		_, _ = s.KeyValue.Update(ctx, key, value, revision)
	}
	return 0, context.DeadlineExceeded
}

// Fails when a release is not tried again: the next worker then waits until the lease has lapsed.
func TestAReleaseThatFailedOnceIsTriedAgain(t *testing.T) {
	t.Parallel()
	for name, stored := range map[string]bool{"the write is lost": false, "its answer is lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			f.prepare = func(b *Bus) { b.lease.kv = &releases{KeyValue: b.lease.kv, stored: stored} }
			_, leave, _ := f.join("one")
			f.await("one")
			f.join("two")
			leave()
			if took := f.await("two"); took > leaseWait/2 {
				t.Errorf("taken over after %s", took)
			}
		})
	}
}

// acts records which replica acted, in order.
type acts struct {
	mu    sync.Mutex
	names []string
	more  chan string
}

// work acts for a replica whenever it may.
func (a *acts) work(t *testing.T, b *Bus) {
	start(t, func(ctx context.Context) error {
		return b.Work(ctx, func(ctx context.Context) error {
			for fair.Sleep(ctx, time.Millisecond) == nil {
				a.mu.Lock()
				if event.Owned(ctx) {
					a.names = append(a.names, b.Replica())
					select {
					case a.more <- b.Replica():
					default:
					}
				}
				a.mu.Unlock()
			}
			return nil
		})
	})
}

// E3, T4: of two replicas at most one acts, also while the connection of one is cut, or loses the server's answers. Fails when a term is
// not over by the worker's own clock, or the lease is taken before that.
func TestTwoReplicasAreNeverTheWorkerAtOnce(t *testing.T) {
	t.Parallel()
	for fault, begin := range map[string]func(*link){
		"answers are lost": func(l *link) { l.lossy.Store(true) },
		"cut off":          func(l *link) { l.down.Store(true); l.cut() },
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			url := remote(t)
			network := newLink(t, url)
			connect := func(name, url string) *Bus {
				return open(t, "", func(o *Options) { o.URL, o.ReplicaID, o.Shards = url, name, 1 })
			}
			one, two := connect("one", network.URL), connect("two", url)
			a := &acts{more: make(chan string)}
			a.work(t, one)
			receive(t, a.more)
			a.work(t, two)
			defer func() { network.lossy.Store(false); network.down.Store(false); network.cut() }()
			begin(network)
			began := time.Now()
			for receive(t, a.more) != "two" {
				continue
			}
			t.Logf("the other acts after %s", time.Since(began))
			for range 300 {
				if name := receive(t, a.more); name != "two" {
					t.Fatalf("%s acts after two has begun", name)
				}
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			if first := slices.Index(a.names, "two"); slices.Contains(a.names[first:], "one") {
				t.Error("one acted after two had begun")
			}
		})
	}
}

// Each term of a process with the embedded server costs two writes at most, independently of the number of its consumers.
// Fails when a consumer has a record of its own.
func TestATermBeginsWithTwoWrites(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, want := range []uint64{1, 3} { // the second process finds that the first one died
		b := open(t, dir, func(o *Options) { o.Shards = 16 })
		held := make(chan event.Message[event.Delivery])
		stop := start(t, deliverTo(b, held))
		must(t, publishDeliveries(testContext(t), b, []event.Delivery{testDelivery(fmt.Sprint(i), "team", "slack")}))
		receive(t, held)
		s, err := b.js.Stream(testContext(t), bucketStream+bucketWorker)
		must(t, err)
		if got := s.CachedInfo().State.LastSeq; got != want {
			t.Errorf("%d writes at the start of process %d, want %d", got, i, want)
		}
		die(b)
		stop()
	}
}

// Fails when the work of the only process has a fence, which costs each send a write of its own for the body.
func TestTheOnlyProcessNeedsNoFence(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	fenced := make(chan bool, 1)
	ctx, stop := context.WithCancel(testContext(t))
	_ = b.Work(ctx, func(ctx context.Context) error {
		fenced <- event.Fenced(ctx)
		stop()
		return nil
	})
	if <-fenced {
		t.Error("a term that does not lapse has a fence")
	}
}

// Fails when a call that ends before its context counts as one whose context ended.
func TestWorkThatEndsByItselfIsAnError(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	broken := errors.New("broken")
	for err, want := range map[error]error{nil: errStopped, broken: broken} {
		if got := b.Work(testContext(t), func(context.Context) error { return err }); !errors.Is(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

// Fails when a replica that has left counts as alive, or a running one does not.
func TestAReplicaIsAliveWhileItIsConnected(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one, _, _ := f.join("one")
	_, _, kill := f.join("two")
	ctx := testContext(t)
	if !one.Alive(ctx, "one") || !one.Alive(ctx, "two") || one.Alive(ctx, "three") {
		t.Errorf("alive: one %t, two %t, three %t", one.Alive(ctx, "one"), one.Alive(ctx, "two"), one.Alive(ctx, "three"))
	}
	kill()
	for one.Alive(ctx, "two") {
		must(t, fair.Sleep(ctx, 10*time.Millisecond)) // the server notices that the connection was closed
	}
}
