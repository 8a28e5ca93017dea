package limit

import (
	"context"
	"errors"
	"io"
	"net/http"

	"golang.org/x/sync/semaphore"
)

// MaxBody is the greatest body either endpoint accepts, in bytes.
const MaxBody = 3 << 20

// BufferSize is what a webhook that is being read costs in any case: most bodies are hashed as they arrive and not kept.
const BufferSize = 16 << 10

// Body is a body in memory. What it needs beyond the first buffer is taken from a common capacity, as the body arrives and not
// as it was announced, so that a sender who dawdles holds little.
type Body struct {
	Bytes []byte
	// Take takes so many bytes of capacity, and reports whether there was capacity in time.
	Take func(ctx context.Context, size int64) bool
	Max  int
}

// BodyCapacity is memory that bodies share, and beside it memory for the rest of one body. Each body takes some as it arrives, so that all
// could end up waiting for what the others hold: the body that has the rest goes on, and then the next.
type BodyCapacity struct{ shared, rest *semaphore.Weighted }

// NewBodyCapacity returns a capacity of so many bytes.
func NewBodyCapacity(size int64) BodyCapacity {
	return BodyCapacity{shared: semaphore.NewWeighted(size), rest: semaphore.NewWeighted(1)}
}

// BodyUse is what one body holds of a capacity.
type BodyUse struct {
	Capacity *BodyCapacity
	// kept is how many of its bytes are in the shared capacity, hasRest whether what comes is in the capacity beside it.
	kept    int64
	hasRest bool
}

// Take takes size bytes more, waiting for them until ctx ends, and reports whether they were to be had.
func (b *BodyUse) Take(ctx context.Context, size int64) bool {
	return b.TakeNow(size) || b.TakeRest(ctx)
}

// TakeNow is take without waiting.
func (b *BodyUse) TakeNow(size int64) bool {
	switch {
	case b.hasRest:
		return true
	case b.Capacity.shared.TryAcquire(size):
		b.kept += size
		return true
	}
	return false
}

// TakeRest takes the capacity beside the shared one, in which the rest of the body has its place, however much that is.
func (b *BodyUse) TakeRest(ctx context.Context) bool {
	b.hasRest = b.hasRest || b.Capacity.rest.Acquire(ctx, 1) == nil
	return b.hasRest
}

// Give gives everything back.
func (b *BodyUse) Give() {
	b.Capacity.shared.Release(b.kept)
	if b.hasRest {
		b.Capacity.rest.Release(1)
	}
	b.kept, b.hasRest = 0, false
}

// The ways in which a body is not read to its end.
var (
	ErrNoCapacity = errors.New("no capacity for the body")
	ErrTooLarge   = errors.New("body is too large")
)

// Read reads the body of r to its end. The error is errNoRoom, errTooLarge, or what reading it failed with.
func (b *Body) Read(r *http.Request) error {
	size := int64(BufferSize)
	if r.ContentLength >= 0 && r.ContentLength < BufferSize {
		size = r.ContentLength + 1 // one more, so that the end is seen without growing
	}
	b.Bytes = make([]byte, 0, min(size, int64(b.Max)+1))
	for {
		if len(b.Bytes) == cap(b.Bytes) && !b.grow(r.Context()) {
			return ErrNoCapacity
		}
		n, err := r.Body.Read(b.Bytes[len(b.Bytes):cap(b.Bytes)])
		b.Bytes = b.Bytes[:len(b.Bytes)+n]
		switch {
		case len(b.Bytes) > b.Max:
			return ErrTooLarge
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// grow doubles what may be held, up to the greatest body and the byte that is too many.
func (b *Body) grow(ctx context.Context) bool {
	size := min(max(BufferSize, 2*len(b.Bytes)), b.Max+1)
	more := int64(size - len(b.Bytes))
	if !b.Take(ctx, more) {
		return false
	}
	grown := make([]byte, len(b.Bytes), size) // exactly: append would round up past what was taken
	copy(grown, b.Bytes)
	b.Bytes = grown
	return true
}
