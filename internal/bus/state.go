package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// headerOperation is a header of a message that deletes a key. The message of a value has none.
const headerOperation = "KV-Operation"

// State has the last published state of each object, shared by all replicas. Keys are any strings, values are the caller's.
type State struct {
	kv  jetstream.KeyValue
	bus *Bus
}

// bucket is a bucket whose Update takes zero as the revision of a key that was deleted as well as of one that never was. The server counts a
// deletion as a revision, so that nothing could ever be written under such a key again.
type bucket struct{ jetstream.KeyValue }

// Update implements jetstream.KeyValue.
func (b bucket) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if revision > 0 {
		return b.KeyValue.Update(ctx, key, value, revision)
	}
	written, err := b.Create(ctx, key, value)
	if errors.Is(err, jetstream.ErrKeyExists) {
		err = jetstream.ErrKeyRevisionMismatch
	}
	return written, err
}

// workerEntry is an entry of the worker's bucket, in JSON. Its name is for errors.
type workerEntry[T any] struct {
	bucket    jetstream.KeyValue
	key, name string
	revision  uint64 // as last read or written, 0 for none
}

// load reads the entry. It returns zero for an entry that is absent or cannot be decoded.
func (e *workerEntry[T]) load(ctx context.Context) (value T, err error) {
	read, err := e.bucket.Get(ctx, e.key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return value, nil
	}
	if err != nil {
		return value, fmt.Errorf("read %s: %w", e.name, err)
	}
	e.revision = read.Revision()
	var decoded T
	if json.Unmarshal(read.Value(), &decoded) != nil {
		return value, nil
	}
	return decoded, nil
}

// save replaces the entry. It fails when another worker has written it since: then this worker's term is over.
func (e *workerEntry[T]) save(ctx context.Context, value T) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", e.name, err)
	}
	revision, err := e.bucket.Update(ctx, e.key, body, e.revision)
	if err != nil {
		return fmt.Errorf("write %s: %w", e.name, err)
	}
	e.revision = revision
	return nil
}

// State returns the bucket of states.
func (b *Bus) State() *State { return &State{b.buckets[bucketState], b} }

// Get returns a key's value and its revision, which Put takes.
func (s *State) Get(ctx context.Context, key string) (value []byte, revision uint64, found bool, err error) {
	e, err := s.kv.Get(ctx, keyToken(key))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, 0, false, nil
	}
	if err != nil {
		return nil, 0, false, fmt.Errorf("get state: %w", err)
	}
	return e.Value(), e.Revision(), true, nil
}

// Put writes a key's value if its revision is still the given one, zero meaning that the key does not exist, and returns when that is on
// disk. Otherwise it returns jetstream.ErrKeyRevisionMismatch.
func (s *State) Put(ctx context.Context, key string, value []byte, revision uint64) error {
	_, err := s.kv.Update(ctx, keyToken(key), value, revision)
	if err == nil {
		err = s.bus.durable(ctx, bucketStream+bucketState)
	}
	return kvError("put state", err)
}

// Delete removes a key at any revision.
func (s *State) Delete(ctx context.Context, key string) error {
	return kvError("delete state", s.kv.Purge(ctx, keyToken(key), jetstream.PurgeTTL(deleteMarkers)))
}

// All calls each with every key and its value, until it has seen all keys that existed when it began.
func (s *State) All(ctx context.Context, each func(key string, value []byte)) error {
	return kvError("list states", s.bus.watchKeys(ctx, bucketState, true, each))
}

// Health has the health of Receivers and the webhooks received for them: each replica writes its reports, and the status writer reads them.
type Health struct {
	kv  jetstream.KeyValue
	bus *Bus
}

// Health returns the bucket of health.
func (b *Bus) Health() *Health { return &Health{b.buckets[bucketHealth], b} }

// Get returns a key's value, nil for none.
func (h *Health) Get(ctx context.Context, key string) ([]byte, error) {
	e, err := h.kv.Get(ctx, keyToken(key))
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return nil, nil
	case err != nil:
		return nil, kvError("get health", err)
	}
	return e.Value(), nil
}

// Put replaces a key's value; nil deletes it.
func (h *Health) Put(ctx context.Context, key string, value []byte) error {
	if value == nil {
		return kvError("delete health", h.kv.Purge(ctx, keyToken(key), jetstream.PurgeTTL(deleteMarkers)))
	}
	_, err := h.kv.Put(ctx, keyToken(key), value)
	return kvError("put health", err)
}

// All calls each with every key and its value, until it has seen all keys that existed when it began.
func (h *Health) All(ctx context.Context, each func(key string, value []byte)) error {
	return kvError("list health", h.bus.watchKeys(ctx, bucketHealth, true, each))
}

// Watch calls each with all keys and then with every change: the latest value of each key, nil when it was deleted. It returns nil when ctx
// ends and an error when the watch ends; a new Watch starts with all keys again.
func (h *Health) Watch(ctx context.Context, each func(key string, value []byte)) error {
	err := h.bus.watchKeys(ctx, bucketHealth, false, each)
	if ctx.Err() != nil {
		return nil
	}
	return kvError("watch health", err)
}

// watchKeys calls each with every key of a bucket, and unless once is true with every change after that. The value of a deleted key is nil. It
// ends with an error when it may have missed a change. The client's watcher would go on by itself (see streamReader).
func (b *Bus) watchKeys(ctx context.Context, name string, once bool, each func(key string, value []byte)) error {
	opening, cancel := context.WithTimeout(context.WithoutCancel(ctx), apiTimeout) // a consumer that is half made could not be removed
	msgs, err := b.readFrom(opening, b.stream(bucketStream+name), 1, time.Time{}, false)
	cancel()
	if err != nil {
		return err
	}
	defer msgs.Stop()
	for !once || msgs.left > 0 {
		m, _, err := msgs.next(ctx)
		if err != nil {
			return err
		}
		if m == nil {
			continue
		}
		key, err := untoken(strings.TrimPrefix(m.Subject(), "$KV."+name+"."))
		switch {
		case err != nil: // not a key of ours
		case m.Headers().Get(headerOperation) == "" && m.Headers().Get(jetstream.MarkerReasonHeader) == "":
			each(key, m.Data())
		case !once:
			each(key, nil)
		}
	}
	return nil
}

func kvError(operation string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", operation, err)
}
