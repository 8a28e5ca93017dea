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

	mu sync.Mutex
	nc *nats.Conn
}

func newReads(b *Bus) *reads {
	r := &reads{bus: b, turns: fair.NewCapacity(maxReads)}
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

// conn returns the connection, which is made at its first use.
func (r *reads) conn() (_ *nats.Conn, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nc != nil {
		return r.nc, nil
	}
	if r.bus.closed.Load() {
		return nil, nats.ErrConnectionClosed
	}
	if r.nc, err = r.bus.dial("reads"); err != nil {
		r.nc = nil
		return nil, err
	}
	return r.nc, nil
}

func (r *reads) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nc != nil {
		r.nc.Close()
	}
}

// stream returns the reader of a stream.
func (r *reads) stream(name string) (browse.Stream, error) {
	nc, err := r.conn()
	if err != nil {
		return browse.Stream{}, fmt.Errorf("read %s: %w", name, err)
	}
	return browse.Stream{Conn: nc, Name: name, Direct: r.bus.opts.Replicas == 1}, nil
}

func (r *reads) jetStream() (jetstream.JetStream, error) {
	nc, err := r.conn()
	if err != nil {
		return nil, err
	}
	return jetstream.New(nc, jetstream.WithDefaultTimeout(apiTimeout))
}

// walker returns the walker that reads a namespace's messages of a filter backwards.
func (r *reads) walker(stream, namespace, filter string) (browse.Walker, error) {
	s, err := r.stream(stream)
	if err != nil {
		return browse.Walker{}, err
	}
	return browse.Walker{Stream: s, Filter: filter, Match: func(subject string) bool { return namespaceOf(subject) == namespace }}, nil
}

func asMsg(m browse.Message) *nats.Msg {
	return &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}
}
