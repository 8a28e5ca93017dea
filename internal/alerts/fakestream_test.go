package alerts

import (
	"context"
	"slices"
	"sync"

	"notifier/internal/event"
)

// fakeStream hands out events as the bus does: in order, as many together as are published. It counts the acknowledged ones.
type fakeStream struct {
	mu      sync.Mutex
	last    uint64
	waiting []*event.Record
	done    int
	came    chan struct{} // has a token when an event waits
}

// streamBatch is how many events the bus hands out together at most.
const streamBatch = 128

func newFakeStream() *fakeStream { return &fakeStream{came: make(chan struct{}, 1)} }

// publish adds events to the end of the stream, at once.
func (f *fakeStream) publish(records ...*event.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range records {
		f.last++
		r.Seq, r.ID = f.last, "e"+itoa(int(f.last))
	}
	f.waiting = append(f.waiting, records...)
	select {
	case f.came <- struct{}{}:
	default:
	}
}

// Events implements EventSource.
func (f *fakeStream) Events(ctx context.Context, h event.Handler) error {
	for {
		batch := f.take()
		if len(batch) > 0 {
			if err := h.Handle(ctx, batch); err != nil && ctx.Err() == nil {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.came:
		}
	}
}

func (f *fakeStream) take() (batch []event.Message[*event.Record]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := min(len(f.waiting), streamBatch)
	for _, r := range f.waiting[:n] {
		batch = append(batch, event.Message[*event.Record]{Value: r, Seq: r.Seq, Acker: f})
	}
	f.waiting = slices.Delete(f.waiting, 0, n)
	return batch
}

// Ack implements event.Acker. It counts one event as done.
func (f *fakeStream) Ack(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done++
	return nil
}

// InProgress implements event.Acker.
func (f *fakeStream) InProgress() error { return nil }

// Nak implements event.Acker. The returned event is not handed out again, and so is never done.
func (f *fakeStream) Nak() error { return nil }

// open counts the events that are not done.
func (f *fakeStream) open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return int(f.last) - f.done
}
