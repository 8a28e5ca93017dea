package event

import (
	"context"
	"sync/atomic"
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

// Divide returns n Settlers that stand for s together: s is done when each of them is, and returned when one is. Done and Return of each may be
// called again, and do nothing then.
func Divide(s Settler, n int) []Settler {
	whole := &divided{Settler: s}
	whole.left.Store(int64(n))
	parts := make([]part, n)
	settlers := make([]Settler, n)
	for i := range parts {
		parts[i].whole = whole
		settlers[i] = &parts[i]
	}
	return settlers
}

type divided struct {
	Settler
	left atomic.Int64
}

type part struct {
	whole   *divided
	settled atomic.Bool
}

// Done implements Settler.
func (p *part) Done(ctx context.Context) error {
	if p.settled.Swap(true) || p.whole.left.Add(-1) > 0 {
		return nil
	}
	return p.whole.Settler.Done(ctx)
}

// Working implements Settler.
func (p *part) Working() error { return p.whole.Working() }

// Return implements Settler.
func (p *part) Return() error {
	if p.settled.Swap(true) {
		return nil
	}
	return p.whole.Return()
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
