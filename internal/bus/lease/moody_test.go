package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event"
	"notifier/internal/fair"
)

// FuzzE4NoTwoReplicasWorkAtATime is the promise of the lease with three replicas that come and go, on a bucket that is slow, or does not answer
// one of them, or stores a write long after its replica gave up, and whose entry is deleted at times. No two replicas work at a time, and one
// works soon after all is calm.
//
// Fails when another replica waits for less than a term, or counts that from the first entry that it reads, or not at all after a deletion.
func FuzzE4NoTwoReplicasWorkAtATime(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { playReplicas(t, seed) })
	})
}

// deletable is a bucket whose entry may be deleted. Its revisions go on after that.
type deletable struct {
	bucket
	deleted bool
}

func (k *deletable) delete() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.deleted, k.revision = true, k.revision+1
}

func (k *deletable) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	k.mu.Lock()
	deleted := k.deleted
	k.mu.Unlock()
	if deleted {
		return nil, jetstream.ErrKeyNotFound
	}
	return k.bucket.Get(ctx, key)
}

func (k *deletable) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	k.mu.Lock()
	if k.deleted && revision == 0 {
		revision = k.revision
	}
	k.mu.Unlock()
	is, err := k.bucket.Update(ctx, key, value, revision)
	if err == nil {
		k.mu.Lock()
		k.deleted = false
		k.mu.Unlock()
	}
	return is, err
}

// moodyBucket is a replica's way to a bucket.
type moodyBucket struct {
	jetstream.KeyValue
	bucket *deletable
	mu     sync.Mutex
	rng    *rand.Rand
	// cut says that nothing is answered, and calm that all is at once.
	cut, calm bool
	late      sync.WaitGroup
}

// way returns how long a message takes, and whether it is lost.
func (k *moodyBucket) way() (time.Duration, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.calm:
		return time.Millisecond, false
	case k.cut:
		return 0, true
	}
	takes := time.Duration(1+k.rng.IntN(20)) * time.Millisecond
	if k.rng.IntN(8) == 0 {
		takes *= time.Duration(1 + k.rng.IntN(300))
	}
	return takes, k.rng.IntN(20) == 0
}

// answer waits for an answer, which may be lost.
func (k *moodyBucket) answer(ctx context.Context) error {
	takes, lost := k.way()
	if lost {
		<-ctx.Done()
		return ctx.Err()
	}
	return fair.Sleep(ctx, takes)
}

func (k *moodyBucket) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	if err := k.answer(ctx); err != nil {
		return nil, err
	}
	e, err := k.bucket.Get(ctx, key)
	return e, errors.Join(err, k.answer(ctx))
}

// Update has the write take effect also if its caller does not wait that long.
func (k *moodyBucket) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	takes, lost := k.way()
	type result struct {
		revision uint64
		err      error
	}
	stored := make(chan result, 1)
	k.late.Go(func() {
		<-time.After(max(takes, 1))
		if !lost {
			revision, err := k.bucket.Update(context.Background(), key, value, revision)
			stored <- result{revision, err}
		}
	})
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case r := <-stored:
		return r.revision, errors.Join(r.err, k.answer(ctx))
	}
}

func playReplicas(t *testing.T, seed uint64) {
	rng, kv := rand.New(rand.NewPCG(seed, 1)), &deletable{}
	ctx, end := context.WithCancel(t.Context())
	var mu sync.Mutex
	working := map[int]context.Context{} // by replica
	owners := func() (owned []int) {
		mu.Lock()
		defer mu.Unlock()
		for i, ctx := range working {
			if event.Owned(ctx) {
				owned = append(owned, i)
			}
		}
		return owned
	}
	var ways []*moodyBucket
	var replicas sync.WaitGroup
	for i := range 3 {
		way := &moodyBucket{bucket: kv, rng: rand.New(rand.NewPCG(seed, uint64(i)+2))}
		ways = append(ways, way)
		stays := rand.New(rand.NewPCG(seed, uint64(i)+10))
		replicas.Go(func() {
			for ctx.Err() == nil {
				l := testLease(way, fmt.Sprint("replica-", i))
				l.opts.Begin = func(ctx context.Context, _ bool) error {
					way.mu.Lock()
					takes := time.Duration(way.rng.IntN(4000)) * time.Millisecond
					if way.calm {
						takes = time.Millisecond
					}
					way.mu.Unlock()
					return fair.Sleep(ctx, takes)
				}
				life, stop := context.WithTimeout(ctx, time.Duration(5+stays.IntN(120))*time.Second)
				_ = l.Work(life, func(ctx context.Context) error {
					mu.Lock()
					working[i] = ctx
					mu.Unlock()
					<-ctx.Done()
					<-time.After(time.Duration(1+stays.IntN(1500)) * time.Millisecond) // its calls end
					mu.Lock()
					delete(working, i)
					mu.Unlock()
					return nil
				})
				stop()
				_ = fair.Sleep(ctx, time.Duration(stays.IntN(3000))*time.Millisecond)
			}
		})
	}
	for range 10_000 {
		_ = fair.Sleep(t.Context(), 25*time.Millisecond)
		if owned := owners(); len(owned) > 1 {
			t.Fatalf("replicas %v work at a time", owned)
		}
		way := ways[rng.IntN(len(ways))]
		way.mu.Lock()
		switch rng.IntN(400) {
		case 0:
			way.cut = true
		case 1, 2, 3:
			way.cut = false
		}
		way.mu.Unlock()
		if rng.IntN(1000) == 0 {
			kv.delete()
		}
	}
	for _, way := range ways {
		way.mu.Lock()
		way.calm = true
		way.mu.Unlock()
	}
	longest, since := time.Duration(0), time.Now()
	for range 4000 {
		_ = fair.Sleep(t.Context(), 25*time.Millisecond)
		if len(owners()) > 0 {
			since = time.Now()
		}
		longest = max(longest, time.Since(since))
	}
	if longest > 8*time.Second {
		t.Errorf("no replica works for %s", longest)
	}
	end()
	replicas.Wait()
	for _, way := range ways {
		way.late.Wait()
	}
}
