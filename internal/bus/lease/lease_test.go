package lease

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/fair"
)

// bucket is a bucket with one key. slow is how long a write takes, and how long its answer takes after that.
type bucket struct {
	jetstream.KeyValue
	slow time.Duration

	mu       sync.Mutex
	value    []byte
	revision uint64
	writes   int
}

type entry struct {
	jetstream.KeyValueEntry
	value    []byte
	revision uint64
}

func (e entry) Value() []byte    { return e.value }
func (e entry) Revision() uint64 { return e.revision }

func (k *bucket) Get(context.Context, string) (jetstream.KeyValueEntry, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.revision == 0 {
		return nil, jetstream.ErrKeyNotFound
	}
	return entry{value: k.value, revision: k.revision}, nil
}

func (k *bucket) Update(ctx context.Context, _ string, value []byte, revision uint64) (uint64, error) {
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

func testOptions(kv jetstream.KeyValue, self string) Options {
	return Options{
		Bucket: kv, Self: self, Log: slog.New(slog.DiscardHandler), Begin: func(context.Context, bool) error { return nil },
	}
}

func testLease(kv jetstream.KeyValue, self string) *Lease {
	return New(testOptions(kv, self))
}

// begin returns a replica's term, which ends when the returned function is called.
func begin(t *testing.T, l *Lease) (*term, func()) {
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
		o := testOptions(awayBucket{}, "one")
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		l := New(o)
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
		kv := &bucket{slow: 500 * time.Millisecond}
		began := time.Now()
		held, leave := begin(t, testLease(kv, "one"))
		if until := held.until.Load().Sub(began); until != hold {
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
			if rest := time.Until(*held.until.Load()); rest > hold-2*kv.slow {
				t.Errorf("after a renewal of %s the term lasts %s", 2*kv.slow, rest)
			}
		}
		leave()
	})
}

// A server that is slow for a moment does not count as lost. Fails when a renewal may take less than answerTime, or when the pause between
// two is added to it.
func TestATermOutlivesASlowServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLease(&bucket{slow: 500 * time.Millisecond}, "one") // and as long again until it answers
		held, leave := begin(t, l)
		for range 200 {
			_ = fair.Sleep(t.Context(), 100*time.Millisecond)
			if !held.lasts() {
				t.Fatal("the term has lapsed")
			}
		}
		leave()
	})
}

// After a crash Begin makes many requests, which a slow server answers in more time than a renewal lasts. Fails when the lease is not renewed
// meanwhile: no replica ever becomes the worker.
func TestATermIsRenewedWhileItBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := &bucket{slow: 200 * time.Millisecond}
		o := testOptions(kv, "one")
		o.Begin = func(ctx context.Context, _ bool) error { return fair.Sleep(ctx, 4*wait) }
		l, other := New(o), testLease(kv, "two")
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*4*wait)
		defer cancel()
		l.join(ctx)
		defer l.leave()
		_ = fair.Sleep(t.Context(), time.Second)
		other.join(ctx)
		defer other.leave()
		held := l.await(ctx)
		if took := time.Since(began); held == nil || held.number != 1 || took > 5*wait || other.Held() {
			t.Fatalf("term %+v begins after %s", held, took)
		}
		held.working.Done()
	})
}

// A term that has lapsed does not continue, although a later renewal would succeed, and the next one of the same replica is another. Fails
// when renew continues after the term is over.
func TestATermThatHasLapsedDoesNotGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := &brokenBucket{bucket: &bucket{}}
		l := testLease(kv, "one")
		held, leave := begin(t, l)
		kv.broken.Store(true)
		_ = fair.Sleep(t.Context(), hold)
		synctest.Wait()
		if held.lasts() || l.Held() {
			t.Error("the term lasts after hold without a renewal")
		}
		select {
		case <-held.ended:
		default:
			t.Error("the calls of the term are not told that it is over")
		}
		kv.broken.Store(false)
		_ = fair.Sleep(t.Context(), hold)
		if held.lasts() || l.Held() {
			t.Error("the replica works again before the calls of the old term have returned")
		}
		leave()
		again, leave := begin(t, l)
		if again.number <= held.number {
			t.Errorf("term %d follows %d", again.number, held.number)
		}
		leave()
	})
}

// brokenBucket answers nothing while it is broken.
type brokenBucket struct {
	*bucket
	broken atomic.Bool
}

func (k *brokenBucket) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	if k.broken.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return k.bucket.Get(ctx, key)
}

func (k *brokenBucket) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if k.broken.Load() {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return k.bucket.Update(ctx, key, value, revision)
}

// releases is a bucket when the first write that releases the lease fails.
type releases struct {
	*bucket
	// stored is true when that write is carried out nevertheless.
	stored bool
	failed atomic.Bool
}

func (k *releases) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	var r record
	if json.Unmarshal(value, &r) != nil || r.Holder != "" || k.failed.Swap(true) {
		return k.bucket.Update(ctx, key, value, revision)
	}
	if k.stored {
		_, _ = k.bucket.Update(ctx, key, value, revision)
	}
	return 0, context.DeadlineExceeded
}

// Fails when a release is not tried again: the next worker then waits until the lease has lapsed.
func TestAReleaseThatFailedOnceIsTriedAgain(t *testing.T) {
	for name, stored := range map[string]bool{"the write is lost": false, "its answer is lost": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kv := &releases{bucket: &bucket{}, stored: stored}
				_, leave := begin(t, testLease(kv, "one"))
				go leave()
				left := time.Now()
				_, leave = begin(t, testLease(kv, "two"))
				if took := time.Since(left); took > 3*readEvery {
					t.Errorf("taken over after %s", took)
				}
				leave()
			})
		})
	}
}

// Fails when a replica that leaves before its term has begun keeps the lease: the next one waits until it lapses, and counts a death. A death
// that it was to count is left to the next one.
func TestAReplicaThatLeavesAsItsTermBeginsReleasesTheLease(t *testing.T) {
	for _, died := range []bool{false, true} {
		t.Run(fmt.Sprint("the worker before died: ", died), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kv := &bucket{}
				if died {
					kv.value, kv.revision = []byte(`{"holder":"zero","term":1}`), 1
				}
				one, two := testOptions(kv, "one"), testOptions(kv, "two")
				one.Begin = func(ctx context.Context, _ bool) error {
					<-ctx.Done()
					return ctx.Err()
				}
				told := make(chan bool, 1)
				two.Begin = func(_ context.Context, died bool) error {
					told <- died
					return nil
				}
				first := New(one)
				first.join(t.Context())
				_ = fair.Sleep(t.Context(), 2*wait)
				left := time.Now()
				first.leave()
				_, leave := begin(t, New(two))
				if took := time.Since(left); took > 3*readEvery && !died {
					t.Errorf("taken over after %s", took)
				}
				if got := <-told; got != died {
					t.Errorf("told of a death: %t", got)
				}
				leave()
			})
		})
	}
}

// A deletion of the entry, such as by an operator, ends no term at once. Fails when another replica takes a lease that is gone before the
// worker can have noticed that, or begins its term at once if it starts after the deletion, as if the lease had never been taken.
func TestADeletedLeaseMakesNoSecondWorker(t *testing.T) {
	for name, late := range map[string]bool{"with another replica": false, "before another replica starts": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kv := &deletable{}
				one, two := testLease(kv, "one"), testLease(kv, "two")
				_, leave := begin(t, one)
				if !late {
					two.join(t.Context())
				}
				_ = fair.Sleep(t.Context(), renewEvery/10) // between two renewals
				kv.delete()
				if late {
					two.join(t.Context())
				}
				defer two.leave()
				both := false
				for range 1000 {
					_ = fair.Sleep(t.Context(), time.Millisecond)
					both = both || one.Held() && two.Held()
				}
				if both {
					t.Error("both were the worker")
				}
				leave()
			})
		})
	}
}

// Fails when the first worker of a new bucket waits as if the lease had been deleted.
func TestANewLeaseIsTakenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, began := testLease(&deletable{}, "one"), time.Now()
		_, leave := begin(t, l)
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %s", took)
		}
		leave()
	})
}

// Fails when the successor of a worker that died right after it took a missing lease waits for two terms, one after the other: once the worker's
// lease has lapsed, the term before it is over as well.
func TestAWorkerThatDiedEarlyIsReplacedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := &deletable{bucket: bucket{value: []byte(`{"holder":"one","term":1,"early":true}`), revision: 1}}
		l, began := testLease(kv, "two"), time.Now()
		_, leave := begin(t, l)
		if took := time.Since(began); took < wait || took > wait+time.Second {
			t.Errorf("it took %s", took)
		}
		leave()
	})
}

// T4, E3. Fails when prolong looks at the term and sets its end in two steps: a call between them gives its work up, and the term goes on
// without it.
func TestATermThatWasSeenToBeOverIsOverForGood(t *testing.T) {
	const left = 20 * time.Microsecond
	for i := range 20_000 {
		held := &term{}
		held.begin(time.Now().Add(left - hold))
		var prolonged atomic.Bool
		over := make(chan bool)
		go func() {
			seen := false
			for !seen && !prolonged.Load() {
				seen = !held.lasts()
			}
			over <- seen
		}()
		until, early := *held.until.Load(), time.Duration(i%100)*20
		for about := false; !about; about = time.Until(until) <= early {
			runtime.Gosched()
		}
		held.prolong(time.Now())
		prolonged.Store(true)
		if <-over && held.lasts() {
			t.Fatal("the term lasts again")
		}
	}
}
