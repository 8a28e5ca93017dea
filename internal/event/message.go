package event

import (
	"context"
	"sync/atomic"
	"time"
)

// AckWait is how long a message may be held without a sign of work before the bus hands it out again.
const AckWait = 30 * time.Second

// Acker is the bus's side of one message that a stage holds. Exactly one of Ack and Nak ends the hold; until then
// InProgress keeps the bus from handing the message to anyone else.
type Acker interface {
	// Ack says that the message needs no more work; it returns when the bus has confirmed that.
	Ack(ctx context.Context) error
	// InProgress says that the message is still held. It must be called more often than every AckWait.
	InProgress() error
	// Nak gives the message back, to be handed out again soon.
	Nak() error
}

// Message is a value that came off the bus and must be acknowledged.
type Message[T any] struct {
	Value T
	// Seq is the message's place in its stream, zero when it was not handed out in the stream's order.
	Seq uint64
	Acker
}

// Divide returns n Ackers that stand for s together: s is acknowledged when each of them is, and given back when one is. Ack and Nak of each may be
// called again, and do nothing then.
func Divide(s Acker, n int) []Acker {
	if n == 1 {
		return []Acker{&undivided{Acker: s}}
	}
	whole := &divided{Acker: s}
	whole.left.Store(int64(n))
	parts := make([]part, n)
	ackers := make([]Acker, n)
	for i := range parts {
		parts[i].whole = whole
		ackers[i] = &parts[i]
	}
	return ackers
}

// undivided stands for an Acker alone, as for most events.
type undivided struct {
	Acker
	ended atomic.Bool
}

// Ack implements Acker.
func (u *undivided) Ack(ctx context.Context) error {
	if u.ended.Swap(true) {
		return nil
	}
	return u.Acker.Ack(ctx)
}

// Nak implements Acker.
func (u *undivided) Nak() error {
	if u.ended.Swap(true) {
		return nil
	}
	return u.Acker.Nak()
}

type divided struct {
	Acker
	left atomic.Int64
}

type part struct {
	whole *divided
	ended atomic.Bool
}

// Ack implements Acker.
func (p *part) Ack(ctx context.Context) error {
	if p.ended.Swap(true) || p.whole.left.Add(-1) > 0 {
		return nil
	}
	return p.whole.Acker.Ack(ctx)
}

// InProgress implements Acker.
func (p *part) InProgress() error { return p.whole.InProgress() }

// Nak implements Acker.
func (p *part) Nak() error {
	if p.ended.Swap(true) {
		return nil
	}
	return p.whole.Nak()
}

// Taker is a Acker whose message, while it waits, may stand for later ones that ask for the same: the bus then accepts those
// without writing them, since what they ask for is on disk already.
type Taker interface {
	// Take ends that. It must be called before the work on the message begins: what is accepted afterwards is a message of its own.
	Take()
}

// Take says that the work on the value begins.
func (h Message[T]) Take() {
	if t, ok := h.Acker.(Taker); ok {
		t.Take()
	}
}
