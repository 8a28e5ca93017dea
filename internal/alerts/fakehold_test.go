package alerts

import (
	"context"
	"slices"
	"time"

	"notifier/internal/event"
)

// fakeHold is one delivery of a message to a session.
type fakeHold struct {
	session   *fakeSession
	message   *fakeMessage
	seq       uint64
	delivered int
}

func (h *fakeHold) live() bool {
	return !h.session.cut && h.message.seq == h.seq && !h.message.gone
}

func (h *fakeHold) Ack(context.Context) error {
	b := h.session.fakeBus
	b.mu.Lock()
	defer b.mu.Unlock()
	if h.message.rescheduled { // the end of an event is recorded in memory
		if err := b.faults("done"); err != nil {
			return err
		}
	}
	if h.session.cut {
		return errCut
	}
	if h.live() {
		h.message.gone = true
		b.remove(h.message)
		b.notify()
		if !h.message.rescheduled {
			return nil
		}
		if slices.Contains(b.due, h.message) { // its ack wait had expired
			b.count()
		} else {
			b.held--
		}
	}
	if b.rough != nil && h.message.rescheduled {
		return b.faults("answer")
	}
	return nil
}

func (h *fakeHold) InProgress() error {
	b := h.session.fakeBus
	b.mu.Lock()
	defer b.mu.Unlock()
	if h.live() {
		h.message.heldUntil = time.Now().Add(event.AckWait)
	}
	return nil
}

func (h *fakeHold) Nak() error {
	b := h.session.fakeBus
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !h.live() || h.message.holder != h.session:
	case !h.message.rescheduled:
		h.message.holder = nil
		b.count()
		b.notify()
	default:
		h.message.heldUntil, h.message.returned = time.Now().Add(b.rough.pause()), true
		if b.expires.IsZero() || h.message.heldUntil.Before(b.expires) {
			b.expires = h.message.heldUntil
		}
		b.notify()
	}
	return nil
}
