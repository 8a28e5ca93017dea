package bus

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// slowOwners is the bucket of owners when the first write that gives a role back takes longer than anybody waits.
type slowOwners struct {
	jetstream.KeyValue
	// stored says that the slow write is carried out all the same.
	stored bool

	mu   sync.Mutex
	slow map[string]bool // roles whose slow write is over
}

func (s *slowOwners) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	var l lease
	first := false
	if json.Unmarshal(value, &l) == nil && l.Member == "" {
		s.mu.Lock()
		first = !s.slow[key]
		s.slow[key] = true
		s.mu.Unlock()
	}
	if !first {
		return s.KeyValue.Update(ctx, key, value, revision)
	}
	if s.stored {
		_, _ = s.KeyValue.Update(ctx, key, value, revision)
	}
	return 0, context.DeadlineExceeded
}

// Fails when own goes on after a release that failed: the lease then names a living member that does not serve the role, and
// nobody else takes it.
func TestARoleWhoseReleaseFailedOnceIsServedByTheNext(t *testing.T) {
	t.Parallel()
	for name, stored := range map[string]bool{"the write is lost": false, "its answer is lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			f.prepare = func(b *Bus) {
				b.buckets[bucketOwners] = &slowOwners{KeyValue: b.buckets[bucketOwners], stored: stored, slow: map[string]bool{}}
			}
			f.join("one")
			f.await("one")
			_, leave, _ := f.join("two") // one gives half of the roles up
			f.await("one", "two")
			leave()
			f.await("one")
		})
	}
}
