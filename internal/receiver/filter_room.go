package receiver

import (
	"context"
	"encoding/json"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// maxDecoded bounds in bytes the documents that filters hold decoded at a time, and so the greatest of them, by the estimate of
// decodedSize.
const maxDecoded = 32 << 20

// filterWait is how long a webhook waits for its filters to begin.
const filterWait = 2 * time.Second

// FilterRoom is the room in memory and the processors that all filters share. The webhooks of one namespace are filtered one after
// the other, so that expensive filters hold up their own webhooks, and at most as many at once as there are processors.
type FilterRoom struct {
	total *semaphore.Weighted
	// least is what any webhook takes of it.
	least int64

	mu    sync.Mutex
	turns map[string]*turn // by namespace, of those that have a webhook here
}

// turn is one namespace's.
type turn struct {
	taken *semaphore.Weighted
	users int
}

// NewFilterRoom returns the room for all Receivers of the process.
func NewFilterRoom() *FilterRoom {
	return &FilterRoom{
		total: semaphore.NewWeighted(maxDecoded), least: maxDecoded / int64(runtime.GOMAXPROCS(0)), turns: make(map[string]*turn),
	}
}

// enter takes the namespace's turn and size bytes, and reports whether they were to be had in time. leave gives both back.
// A nil room has room for all.
func (r *FilterRoom) enter(ctx context.Context, namespace string, size int64) (leave func(), ok bool) {
	if r == nil {
		return func() {}, true
	}
	ctx, cancel := context.WithTimeout(ctx, filterWait)
	defer cancel()
	size = min(max(size, r.least), maxDecoded)
	t := r.use(namespace)
	if t.taken.Acquire(ctx, 1) != nil {
		r.drop(namespace, t)
		return nil, false
	}
	pass := func() {
		t.taken.Release(1)
		r.drop(namespace, t)
	}
	if r.total.Acquire(ctx, size) != nil {
		pass()
		return nil, false
	}
	return func() {
		r.total.Release(size)
		pass()
	}, true
}

func (r *FilterRoom) use(namespace string) *turn {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.turns[namespace]
	if t == nil {
		t = &turn{taken: semaphore.NewWeighted(1)}
		r.turns[namespace] = t
	}
	t.users++
	return t
}

func (r *FilterRoom) drop(namespace string, t *turn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(r.turns, namespace)
	}
}

// What the values of a document take in memory when it is decoded, in bytes, measured with the most wasteful documents there are.
const (
	objectSize = 400
	listSize   = 64
	valueSize  = 128
)

// decodedSize estimates from above what a JSON document takes when it is decoded. Short values take up to fifty times the bytes that
// they are sent in, so that a document of 3 MiB may take 150.
func decodedSize(document []byte) int64 {
	size := int64(len(document))
	for i := 0; i < len(document); i++ {
		switch document[i] {
		case '{':
			size += objectSize
		case '[':
			size += listSize
		case ',':
			size += valueSize
		case '"':
			for i++; i < len(document) && document[i] != '"'; i++ {
				if document[i] == '\\' {
					i++
				}
			}
		}
	}
	return size
}

// decodeDocument returns a document of the given decodedSize as expressions read it: an empty object when there is none.
func decodeDocument(document []byte, size int64) (any, error) {
	if len(document) == 0 {
		return map[string]any{}, nil
	}
	if size > maxDecoded {
		return nil, errManyValues
	}
	var decoded any
	if json.Unmarshal(document, &decoded) != nil {
		return nil, errNotJSON
	}
	return decoded, nil
}
