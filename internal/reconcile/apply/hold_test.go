package apply

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// fakeHold records the acknowledgements of a message.
type fakeHold struct {
	mu                      sync.Mutex
	done, returned, working int
	taken                   time.Time
}

// Take implements event.Taker.
func (h *fakeHold) Take() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.taken = time.Now()
}

func (h *fakeHold) count(n *int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	*n++
	return nil
}

func (h *fakeHold) Ack(context.Context) error { return h.count(&h.done) }
func (h *fakeHold) Nak() error                { return h.count(&h.returned) }
func (h *fakeHold) InProgress() error         { return h.count(&h.working) }

func (h *fakeHold) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.done == 1 && h.returned == 0:
		return "done"
	case h.done == 0 && h.returned == 1:
		return "returned"
	case h.done == 0 && h.returned == 0:
		return "held"
	}
	return fmt.Sprintf("done %d times, returned %d times", h.done, h.returned)
}

func (w *world) want(h *fakeHold, want string) {
	w.t.Helper()
	if got := h.String(); got != want {
		w.t.Errorf("the message is %s, want %s", got, want)
	}
}
