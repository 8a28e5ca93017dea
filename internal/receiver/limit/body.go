package limit

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"notifier/internal/fair"
)

// MaxBody is the greatest size of a body at either endpoint, in bytes.
const MaxBody = 3 << 20

// BufferSize is the memory of every webhook that is being read: most bodies are hashed as they arrive and not kept.
const BufferSize = 16 << 10

// Body is a body in memory. The bytes beyond the first buffer are counted in Use as they arrive, not as they were announced, so that a slow
// sender uses little.
type Body struct {
	Bytes []byte
	Max   int
	// Use is the body's use of the memory that bodies share. Its owner releases it.
	Use fair.Use
	// Wait bounds each wait for more of that memory.
	Wait time.Duration
}

// The reasons why a body is not read to its end.
var (
	ErrNoCapacity = errors.New("no capacity for the body")
	ErrTooLarge   = errors.New("body is too large")
)

// Read reads the body of r to its end. The error is ErrNoCapacity, ErrTooLarge, or that of the read.
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

// grow doubles the buffer, up to the greatest body plus the one byte that is too many.
func (b *Body) grow(ctx context.Context) bool {
	size := min(max(BufferSize, 2*len(b.Bytes)), b.Max+1)
	ctx, cancel := context.WithTimeout(ctx, b.Wait)
	defer cancel()
	if b.Use.Grow(ctx, int64(size-len(b.Bytes))) != nil {
		return false
	}
	grown := make([]byte, len(b.Bytes), size) // exactly: append would round up beyond the acquired capacity
	copy(grown, b.Bytes)
	b.Bytes = grown
	return true
}
