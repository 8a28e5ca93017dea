package event

import (
	"context"
	"sync/atomic"
	"time"
)

// AckWait is the time after which the bus redelivers a message that was neither acknowledged nor reported as in progress.
const AckWait = 30 * time.Second

// Acker ends one message of the bus. Exactly one of Ack and Nak ends it. Until then InProgress keeps the bus from redelivering the
// message to another consumer.
type Acker interface {
	// Ack says that the message needs no more work. It returns once the bus has confirmed that.
	Ack(ctx context.Context) error
	// InProgress says that work on the message continues. It must be called more often than every AckWait.
	InProgress() error
	// Nak asks the bus to redeliver the message soon.
	Nak() error
}

// Message is a value that was read from the bus and must be acknowledged.
type Message[T any] struct {
	Value T
	// Seq is the message's place in its stream, zero if it was not read in the stream's order.
	Seq uint64
	Acker
}

// Divide returns n Ackers that together represent s. s is acknowledged when each of them is, and nakked when one is. A second Ack
// or Nak of the same Acker does nothing.
func Divide(s Acker, n int) []Acker {
	var left *atomic.Int64 // one part needs none
	if n > 1 {
		left = new(atomic.Int64)
		left.Store(int64(n))
	}
	parts, ackers := make([]part, n), make([]Acker, n)
	for i := range parts {
		parts[i].Acker, parts[i].left = s, left
		ackers[i] = &parts[i]
	}
	return ackers
}

// part is an Acker that ends once. The last part to be acknowledged acknowledges the message: left counts those that are not.
type part struct {
	Acker
	left  *atomic.Int64
	ended atomic.Bool
}

// Ack implements Acker.
func (p *part) Ack(ctx context.Context) error {
	if p.ended.Swap(true) || p.left != nil && p.left.Add(-1) > 0 {
		return nil
	}
	return p.Acker.Ack(ctx)
}

// Nak implements Acker.
func (p *part) Nak() error {
	if p.ended.Swap(true) {
		return nil
	}
	return p.Acker.Nak()
}

// Taker is an Acker whose message, while it waits, may represent later ones with the same request. The bus then accepts those
// without writing them, since the request is on disk already.
type Taker interface {
	// Take ends that. It must be called before the work on the message begins: a message accepted afterwards is separate.
	Take()
}

// Take says that the work on the value begins. It does nothing unless the Acker is a Taker.
func (h Message[T]) Take() {
	if t, ok := h.Acker.(Taker); ok {
		t.Take()
	}
}
