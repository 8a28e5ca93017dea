package event

import (
	"context"
	"time"
)

// HoldTime is how long a message may be held without a sign of work before the bus hands it out again.
const HoldTime = 30 * time.Second

// Settler is the bus's side of one message that a stage holds. Exactly one of Done and Return ends the hold; until then
// Working keeps the bus from handing the message to anyone else.
type Settler interface {
	// Done says that the message needs no more work; it returns when the bus has confirmed that.
	Done(ctx context.Context) error
	// Working says that the message is still held. It must be called more often than every HoldTime.
	Working() error
	// Return gives the message back, to be handed out again soon.
	Return() error
}

// Held is a value that came off the bus and must be settled.
type Held[T any] struct {
	Value T
	// Seq is the message's place in its stream, zero when it was not handed out in the stream's order.
	Seq uint64
	Settler
}

// Taker is a Settler whose message, while it waits, may stand for later ones that ask for the same: the bus then accepts those
// without writing them, since what they ask for is on disk already.
type Taker interface {
	// Take ends that. It must be called before the work on the message begins: what is accepted afterwards is a message of its own.
	Take()
}

// Take says that the work on the value begins.
func (h Held[T]) Take() {
	if t, ok := h.Settler.(Taker); ok {
		t.Take()
	}
}
