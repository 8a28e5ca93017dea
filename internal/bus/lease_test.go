package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"notifier/internal/bus/lease"
	"notifier/internal/event"
	"notifier/internal/fair"
)

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
	for err, want := range map[error]error{nil: lease.ErrStopped, broken: broken} {
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

// Fails when something is written to the bucket of a new server before the lease: its first worker would wait as after a deletion.
func TestNothingIsWrittenBeforeTheLease(t *testing.T) {
	t.Parallel()
	b := open(t, "", func(o *Options) { o.URL, o.ReplicaID, o.Shards = remote(t), "one", 1 })
	s, err := b.js.Stream(testContext(t), bucketStream+bucketWorker)
	must(t, err)
	if n := s.CachedInfo().State.LastSeq; n != 0 {
		t.Errorf("%d writes before the lease", n)
	}
}

// Fails when a deleted lease, such as by an operator, is never taken again: a deletion has a revision of its own.
func TestADeletedLeaseIsTakenAgain(t *testing.T) {
	t.Parallel()
	b := open(t, "", func(o *Options) { o.URL, o.ReplicaID, o.Shards = remote(t), "one", 1 })
	a := &acts{more: make(chan string)}
	a.work(t, b)
	receive(t, a.more)
	ctx, kv := testContext(t), b.buckets[bucketWorker]
	must(t, kv.Delete(ctx, "lease"))
	for _, err := kv.Get(ctx, "lease"); err != nil; _, err = kv.Get(ctx, "lease") {
		must(t, fair.Sleep(ctx, 10*time.Millisecond))
	}
	receive(t, a.more)
}
