package nats

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"notifier/internal/alerts/provider"
)

// maxSpoken is how much a server may say between two sends, in bytes. It says a few lines; the library keeps a line until it ends.
const maxSpoken = 1 << 20

// conn is a connection.
type conn struct {
	*nats.Conn
	metered *provider.Metered
	// refused ends when the server refuses what was asked of it: it may give no other answer.
	refused context.Context //nolint:containedctx // it lives as long as the connection
}

// until returns ctx, ended when the server refuses something.
func (c *conn) until(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.refused, cancel)
	return ctx, func() { stop(); cancel() }
}

// link is the one connection of a Sender, made when a send needs it.
type link struct {
	dialer  *provider.Dialer
	servers []string
	options []nats.Option

	turn chan struct{} // holds the right to connect

	mu      sync.Mutex
	current *conn
	sends   int
	closed  bool
	idle    *time.Timer
}

func newLink(d *provider.Dialer, servers []string, options []nats.Option) *link {
	l := &link{dialer: d, servers: servers, options: options, turn: make(chan struct{}, 1)}
	return l
}

func (l *link) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sends++
	if l.idle != nil {
		l.idle.Stop()
	}
}

func (l *link) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sends--; l.sends > 0 {
		return
	}
	if l.closed {
		l.hangUp()
	} else if l.current != nil {
		l.idle = time.AfterFunc(idleTime, l.rest)
	}
}

// rest closes a connection that was not used for long.
func (l *link) rest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sends == 0 {
		l.hangUp()
	}
}

func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.sends == 0 {
		l.hangUp()
	}
}

// hangUp closes the connection. It is called with the lock held.
func (l *link) hangUp() {
	if l.idle != nil {
		l.idle.Stop()
	}
	if l.current != nil {
		l.current.Close()
		l.current = nil
	}
}

// drop closes a connection that is of no use any more.
func (l *link) drop(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == c {
		l.current = nil
	}
	c.Close()
}

// conn returns the connection, which it makes if there is none.
func (l *link) conn(ctx context.Context) (*conn, error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-l.turn }()
	l.mu.Lock()
	c := l.current
	l.mu.Unlock()
	if c != nil && c.IsConnected() {
		return c, nil
	}
	c, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.current = c
	l.mu.Unlock()
	return c, nil
}

// connect tries one server after another within the time that ctx leaves.
func (l *link) connect(ctx context.Context) (*conn, error) {
	w := &way{ctx: ctx, dialer: l.dialer}
	refused, refuse := context.WithCancel(context.WithoutCancel(ctx))
	c := &conn{refused: refused}
	defer w.done()
	left := l.dialer.Timeout()
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	share := max(left/time.Duration(len(l.servers)), time.Millisecond)
	w.each = share
	options := append(slices.Clip(l.options), nats.SetCustomDialer(w), nats.Timeout(share),
		// By default the library writes to standard error what a server says.
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrPermissionViolation) {
				refuse()
			}
		}),
		nats.ClosedHandler(func(*nats.Conn) { refuse() }))
	nc, err := nats.Connect(strings.Join(l.servers, ","), options...)
	if err != nil {
		refuse()
		return nil, errors.Join(ctx.Err(), w.failed, w.fault(), err)
	}
	c.Conn, c.metered = nc, w.metered
	return c, nil
}

// way dials for one attempt to connect.
type way struct {
	ctx    context.Context //nolint:containedctx // the library's dialler has no context of its own, and this lives as long as one call
	dialer *provider.Dialer
	each   time.Duration
	// metered is the connection that was dialled last.
	metered *provider.Metered
	// failed is the failure to dial that is most worth another try; the library forgets some.
	failed error
	stop   func() bool
}

// Dial is called for one server after another.
func (w *way) Dial(network, address string) (net.Conn, error) {
	w.done()
	ctx, cancel := context.WithTimeout(w.ctx, w.each)
	defer cancel()
	c, err := w.dialer.DialContext(ctx, network, address)
	if err != nil {
		if w.failed == nil || errors.Is(w.failed, provider.ErrDenied) {
			w.failed = err
		}
		return nil, err
	}
	// The handshake that follows has a deadline; the caller may give up before it.
	w.stop = context.AfterFunc(w.ctx, func() { _ = c.Close() })
	w.metered = provider.NewMetered(c, maxSpoken)
	return w.metered, nil
}

// fault returns why nothing could be read, where the library's own error does not say.
func (w *way) fault() error {
	if w.metered == nil {
		return nil
	}
	return w.metered.Fault()
}

// done lets the connection outlive the send that made it.
func (w *way) done() {
	if w.stop != nil {
		w.stop()
	}
}
