package receiver

import (
	"context"
	"errors"
	"io"
	"net/http"

	"golang.org/x/sync/semaphore"
)

// MaxBody is the greatest body either door accepts, in bytes.
const MaxBody = 3 << 20

// bufferSize is what a webhook that is being read costs in any case: most bodies are hashed as they arrive and not kept.
const bufferSize = 16 << 10

// holding is a body in memory. What it needs beyond the first buffer is taken from a common room, as the body arrives and not
// as it was announced, so that a sender who dawdles holds little.
type holding struct {
	bytes []byte
	// take takes so many bytes of room, and reports whether there was room in time.
	take func(ctx context.Context, size int64) bool
	max  int
}

// bodyRoom is room in memory that bodies share, and beside it room for the rest of one body. Each body takes room as it arrives, so
// that all could end up waiting for room that the others hold: the one that has the rest goes on, and then the next.
type bodyRoom struct{ shared, rest *semaphore.Weighted }

func newBodyRoom(size int64) bodyRoom {
	return bodyRoom{shared: semaphore.NewWeighted(size), rest: semaphore.NewWeighted(1)}
}

// bodyHold is what one body holds of a room.
type bodyHold struct {
	room *bodyRoom
	// kept is how many of its bytes are in the shared room, hasRest whether what comes is in the room beside it.
	kept    int64
	hasRest bool
}

// take takes size bytes more, waiting for them until ctx ends, and reports whether they were to be had.
func (b *bodyHold) take(ctx context.Context, size int64) bool {
	return b.takeNow(size) || b.takeRest(ctx)
}

// takeNow is take without waiting.
func (b *bodyHold) takeNow(size int64) bool {
	switch {
	case b.hasRest:
		return true
	case b.room.shared.TryAcquire(size):
		b.kept += size
		return true
	}
	return false
}

// takeRest takes the room beside the shared one, in which the rest of the body has its place, however much that is.
func (b *bodyHold) takeRest(ctx context.Context) bool {
	b.hasRest = b.hasRest || b.room.rest.Acquire(ctx, 1) == nil
	return b.hasRest
}

// give gives everything back.
func (b *bodyHold) give() {
	b.room.shared.Release(b.kept)
	if b.hasRest {
		b.room.rest.Release(1)
	}
	b.kept, b.hasRest = 0, false
}

// The ways in which a body is not read to its end.
var (
	errNoRoom   = errors.New("no room for the body")
	errTooLarge = errors.New("body is too large")
)

// read reads the body of r to its end. The error is errNoRoom, errTooLarge, or what reading it failed with.
func (b *holding) read(r *http.Request) error {
	b.bytes = make([]byte, 0, min(bufferSize, b.max+1))
	if r.ContentLength >= 0 && r.ContentLength < bufferSize {
		b.bytes = make([]byte, 0, r.ContentLength+1) // one more, so that the end is seen without growing
	}
	for {
		if len(b.bytes) == cap(b.bytes) && !b.grow(r.Context()) {
			return errNoRoom
		}
		n, err := r.Body.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		switch {
		case len(b.bytes) > b.max:
			return errTooLarge
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// grow doubles what may be held, up to the greatest body and the byte that is too many.
func (b *holding) grow(ctx context.Context) bool {
	size := min(max(bufferSize, 2*len(b.bytes)), b.max+1)
	more := int64(size - len(b.bytes))
	if !b.take(ctx, more) {
		return false
	}
	grown := make([]byte, len(b.bytes), size) // exactly: append would round up past what was taken
	copy(grown, b.bytes)
	b.bytes = grown
	return true
}
