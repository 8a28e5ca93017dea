package nats

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"notifier/internal/alerts/provider"
	"notifier/internal/fair"
)

// maxSpoken bounds the bytes that a server may send between two sends. A server sends a few lines; the library keeps a line until it
// ends.
const maxSpoken = 1 << 20

// conn is a connection.
type conn struct {
	*nats.Conn
	metered *provider.Metered
	// refused ends when the server refuses a request: it may give no other answer.
	refused context.Context //nolint:containedctx // it lives as long as the connection
	// kept says that the connection has a place among those that are kept, until release.
	kept    bool
	release func()
}

// Close ends the connection at once. The library alone would first write what is left for a server that does not read, for up to a minute.
// Nothing is left of a send that has ended well: it was answered.
func (c *conn) Close() {
	_ = c.metered.Close()
	c.Conn.Close()
	c.release()
}

// until returns a ctx that also ends when the server refuses a request.
func (c *conn) until(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.refused, cancel)
	return ctx, func() { stop(); cancel() }
}

// link is the one connection of a Sender, made when a send needs it.
type link struct {
	dialer  *provider.Dialer
	servers []string
	// secure means that a server without TLS is refused.
	secure  bool
	options []nats.Option

	turn *fair.Capacity // of one: the right to connect

	mu      sync.Mutex
	current *conn
	sends   int
	closed  bool
	idle    *time.Timer
}

func newLink(d *provider.Dialer, servers []string, secure bool, options []nats.Option) *link {
	return &link{dialer: d, servers: servers, secure: secure, options: options, turn: fair.NewCapacity(1)}
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
	if l.closed || l.current != nil && !l.current.kept {
		l.hangUp()
	} else if l.current != nil {
		l.idle = time.AfterFunc(idleTime, l.rest)
	}
}

// rest closes a connection that was idle for idleTime.
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

// hangUp closes the connection. The caller has locked mu.
func (l *link) hangUp() {
	if l.idle != nil {
		l.idle.Stop()
	}
	if l.current != nil {
		l.current.Close()
		l.current = nil
	}
}

// drop closes a connection that is unusable.
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
	turn, err := l.turn.Acquire(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer turn.Release()
	l.mu.Lock()
	c := l.current
	l.mu.Unlock()
	if c != nil {
		if c.IsConnected() {
			return c, nil
		}
		l.drop(c)
	}
	if c, err = l.connect(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.current = c
	l.mu.Unlock()
	return c, nil
}

// connect tries one server after another within the time that ctx has left.
func (l *link) connect(ctx context.Context) (*conn, error) {
	w := &way{ctx: ctx, dialer: l.dialer, secure: l.secure}
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
		func(o *nats.Options) error {
			o.Servers = l.servers // Connect would divide a list at each comma, which a password may have
			return nil
		},
		// By default the library writes the server's errors to standard error.
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrPermissionViolation) {
				refuse()
			}
		}),
		nats.ClosedHandler(func(*nats.Conn) { refuse() }))
	nc, err := nats.Connect("", options...)
	if err != nil {
		refuse()
		return nil, errors.Join(ctx.Err(), w.failed, w.fault(), err)
	}
	c.Conn, c.metered = nc, w.metered
	c.release, c.kept = l.dialer.Keep()
	return c, nil
}

// way dials for one attempt to connect.
type way struct {
	ctx    context.Context //nolint:containedctx // the library's dialler has no context of its own, and this lives as long as one call
	dialer *provider.Dialer
	secure bool
	each   time.Duration
	// metered is the connection that was dialled last.
	metered *provider.Metered
	// failed is the first failure to dial, preferably other than a denied address, since another is retried. The library forgets some
	// failures.
	failed error
	stop   func() bool
}

// Dial is called for one server after another. It returns a connection on which the server has sent its first line. TLS, if any, is
// set up.
func (w *way) Dial(network, address string) (net.Conn, error) {
	w.done()
	ctx, cancel := context.WithTimeout(w.ctx, w.each)
	defer cancel()
	c, err := w.dial(ctx, network, address)
	if err != nil && (w.failed == nil || errors.Is(w.failed, provider.ErrDenied)) {
		w.failed = err
	}
	if err != nil {
		return nil, err
	}
	// The login after the dial has a deadline; the caller may give up before it.
	dialled := w.metered
	w.stop = context.AfterFunc(w.ctx, func() { _ = dialled.Close() })
	return c, nil
}

func (w *way) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	c, metered, err := w.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w.metered = metered
	stop := context.AfterFunc(ctx, func() { _ = metered.Close() })
	greeted, err := greet(ctx, c, w.secure, w.dialer.TLS(host))
	if !stop() {
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		_ = metered.Close()
		return nil, err
	}
	metered.Allow(maxSpoken)
	metered.Opened() // the library writes under a lock that its reader needs, so its reader must not keep the turn
	return greeted, nil
}

// SkipTLSHandshake returns true: Dial has made the handshake.
func (w *way) SkipTLSHandshake() bool { return true }

// fault returns the cause of a failed read, which the library's own error may lack.
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
