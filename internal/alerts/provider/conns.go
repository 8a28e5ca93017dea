package provider

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"sync"

	"notifier/internal/fair"
)

// Bounds on the connections that clients keep between sends, 33 KiB each as measured over TLS: a tenant can make any number of Providers,
// and one event can be for all of them.
const (
	// keptConns is for the clients of one namespace, and keptTotal for those of all namespaces, beyond keptReserve for each.
	keptConns   = 1024
	keptReserve = 8
	keptTotal   = 4096
)

// Bounds on the bytes that the other end of a connection may send, TLS included. A destination could otherwise send frames of HTTP/2 for
// ever, each of which is answered, or a certificate that does not end.
const (
	// handshakeBytes is for a handshake: chains of certificates have some 10 KiB, and crypto/tls keeps up to 256. idleBytes is for that, and
	// between sends.
	handshakeBytes = 64 << 10
	idleBytes      = handshakeBytes
	// sendBytes is for each send, beside twice the longest answer that the type reads: small records of TLS are longer than their contents.
	sendBytes = 256 << 10
)

// kept are the places of the connections that are kept.
var kept = fair.NewCapacities[string](fair.NewCapacity(keptTotal), keptConns, keptReserve)

// conns are the connections of one client. net/http closes on request only the connections that it has filed as idle. It files an
// HTTP/2 connection a moment after its last answer was read, and the connection would then stay for the whole idle timeout. So
// connections are also closed by count: once no send is under way, all of them if the client is closed, else those without a place among
// the connections that its namespace keeps.
type conns struct {
	namespace string
	// most is how many bytes may come for one send.
	most int64

	mu     sync.Mutex
	open   map[*countedConn]struct{}
	sends  int
	closed bool
}

// dialer returns dial with its connections counted.
func (c *conns) dialer(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.closed && c.sends == 0 { // dialled for a send that has given up
			_ = conn.Close()
			return nil, net.ErrClosed
		}
		counted := &countedConn{in: c}
		counted.meter(conn, idleBytes, c, c.namespace)
		counted.place, counted.kept = kept.TryAcquire(c.namespace, 1)
		if c.open == nil {
			c.open = make(map[*countedConn]struct{})
		}
		c.open[counted] = struct{}{}
		return counted, nil
	}
}

func (c *conns) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sends++
}

func (c *conns) end() {
	c.mu.Lock()
	c.sends--
	c.sweep()
}

func (c *conns) close() {
	c.mu.Lock()
	c.closed = true
	c.sweep()
}

// got allows the other end of a connection to send an answer. The connection has been chosen for a request, which may be another client's.
func (c *conns) got(info httptrace.GotConnInfo) {
	conn := info.Conn
	for over, ok := conn.(*tls.Conn); ok; over, ok = conn.(*tls.Conn) { // two behind a proxy that speaks TLS
		conn = over.NetConn()
	}
	if counted, ok := conn.(*countedConn); ok && counted.in == c {
		counted.Opened()
		if left := counted.left.Add(c.most); left > idleConns*c.most { // as many sends are under way at most
			counted.left.Add(-c.most)
		}
	}
}

// sweep ends the allowances of past sends, and closes the connections that are not kept, unless a send is under way. The caller has locked
// mu, and sweep unlocks it, since Close takes it again.
func (c *conns) sweep() {
	var unused []*countedConn
	if c.sends == 0 {
		for conn := range c.open {
			conn.Reset()
			if c.closed || !conn.kept {
				unused = append(unused, conn)
			}
		}
	}
	c.mu.Unlock()
	for _, conn := range unused {
		_ = conn.Close()
	}
}

// countedConn is an open connection. in.mu protects place, which is released once.
type countedConn struct {
	Metered
	in    *conns
	kept  bool
	place fair.KeyUse[string]
}

func (c *countedConn) Close() error {
	c.in.mu.Lock()
	delete(c.in.open, c)
	c.place.Release()
	c.in.mu.Unlock()
	return c.Metered.Close()
}
