package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/bus/browse"
	"notifier/internal/event/view"
	"notifier/internal/fair"
)

const (
	// maxReads is how many lists and lookups of owners this process makes at a time.
	maxReads = 4
	// readTime bounds one of them, and turnTime how long it waits before it begins.
	readTime = 5 * time.Second
	turnTime = time.Second
)

// ErrBusy says that too many lists are being read, and that the same request may succeed soon.
var ErrBusy = errors.New("too many lists are being read")

// reads serves the owners' lists and lookups. It has a connection of its own: the server answers one connection's requests one after the
// other. So a publish does not wait while a block of a stream is read for a list.
type reads struct {
	bus   *Bus
	turns *fair.Capacity
	feeds map[view.List][]*followed

	mu      sync.Mutex
	js      jetstream.JetStream
	streams map[string]jetstream.Stream
}

func newReads(b *Bus) *reads {
	r := &reads{bus: b, turns: fair.NewCapacity(maxReads), streams: map[string]jetstream.Stream{}}
	r.feeds = newFeeds(r)
	return r
}

// reading calls read when fewer than maxReads are under way, or returns ErrBusy. The task names it in errors.
func reading[T any](ctx context.Context, r *reads, task string, read func(context.Context) (T, error)) (result T, err error) {
	turn, cancel := context.WithTimeout(ctx, turnTime)
	use, err := r.turns.Acquire(turn, 1)
	cancel()
	if err != nil {
		return result, cmp.Or(ctx.Err(), ErrBusy)
	}
	defer use.Release()
	ctx, cancel = context.WithTimeout(ctx, readTime)
	defer cancel()
	got, err := read(ctx)
	if err != nil {
		return result, fmt.Errorf("%s: %w", task, err)
	}
	return got, nil
}

func (r *reads) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.js != nil {
		r.js.Conn().Close()
	}
}

// stream returns the reader of a stream. The connection is made at its first use.
func (r *reads) stream(ctx context.Context, name string) (browse.Stream, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.connect(); err != nil {
		return browse.Stream{}, fmt.Errorf("read %s: %w", name, err)
	}
	if r.streams[name] == nil {
		stream, err := r.js.Stream(ctx, name)
		if err != nil {
			return browse.Stream{}, fmt.Errorf("read %s: %w", name, err)
		}
		r.streams[name] = stream
	}
	return browse.Stream{Stream: r.streams[name], Conn: r.js.Conn()}, nil
}

// connect makes the connection, unless it is there. The client gives a connection up for good after some errors of the server. The caller
// holds the lock.
func (r *reads) connect() error {
	if r.js != nil && !r.js.Conn().IsClosed() {
		return nil
	}
	clear(r.streams) // they are read by the connection before
	if r.bus.closed.Load() {
		return nats.ErrConnectionClosed
	}
	nc, err := r.bus.dial("reads")
	if err != nil {
		return err
	}
	r.js, err = jetstream.New(nc, jetstream.WithDefaultTimeout(apiTimeout))
	return err
}

// walker returns the walker that reads a namespace's messages of a filter backwards.
func (r *reads) walker(ctx context.Context, stream, namespace, filter string) (browse.Walker, error) {
	s, err := r.stream(ctx, stream)
	if err != nil {
		return browse.Walker{}, err
	}
	return browse.Walker{Stream: s, Filter: filter, Match: func(subject string) bool { return namespaceOf(subject) == namespace }}, nil
}

func asMsg(m *jetstream.RawStreamMsg) *nats.Msg {
	return &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}
}
