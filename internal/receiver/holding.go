package receiver

import (
	"context"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
)

// holding is a body in memory. What it needs beyond the first buffer is taken from a common room, as the body arrives and not
// as it was announced, so that a sender who dawdles holds little.
type holding struct {
	bytes []byte
	held  *semaphore.Weighted
	wait  time.Duration
	max   int
	taken int64
}

// read reads the body of r to its end; the answer is nil if that succeeded.
func (b *holding) read(r *http.Request) *answer {
	b.bytes = make([]byte, 0, min(bufferSize, b.max+1))
	if r.ContentLength >= 0 && r.ContentLength < bufferSize {
		b.bytes = make([]byte, 0, r.ContentLength+1) // one more, so that the end is seen without growing
	}
	for {
		if len(b.bytes) == cap(b.bytes) && !b.grow(r.Context()) {
			return postBusy
		}
		n, err := r.Body.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		switch {
		case len(b.bytes) > b.max:
			return postTooLarge
		case err == io.EOF:
			return nil
		case err != nil:
			return postUnreadable
		}
	}
}

// grow doubles what may be held, up to the greatest body and the byte that is too many.
func (b *holding) grow(ctx context.Context) bool {
	size := min(max(bufferSize, 2*len(b.bytes)), b.max+1)
	more := int64(size - len(b.bytes))
	if !b.held.TryAcquire(more) {
		ctx, cancel := context.WithTimeout(ctx, b.wait)
		defer cancel()
		if b.held.Acquire(ctx, more) != nil {
			return false
		}
	}
	b.taken += more
	grown := make([]byte, len(b.bytes), size) // exactly: append would round up past what was taken
	copy(grown, b.bytes)
	b.bytes = grown
	return true
}

// release gives the room back. The body must not be used any more.
func (b *holding) release() { b.held.Release(b.taken) }
