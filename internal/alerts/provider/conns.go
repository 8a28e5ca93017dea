package provider

import (
	"context"
	"net"
	"sync"
)

// conns are the connections of one client. net/http closes on request only the connections that it has filed as idle. It files an
// HTTP/2 connection a moment after its last answer was read, and the connection would then stay for the whole idle timeout. So
// connections are also closed by count: once the client is closed and no send is under way.
type conns struct {
	mu     sync.Mutex
	open   map[net.Conn]struct{}
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
		counted := &countedConn{Conn: conn, in: c}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.closed && c.sends == 0 { // dialled for a send that has given up
			_ = conn.Close()
			return nil, net.ErrClosed
		}
		if c.open == nil {
			c.open = make(map[net.Conn]struct{})
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

// sweep closes the connections of a closed client that has no send under way. The caller has locked mu, and sweep unlocks it, since
// Close takes it again.
func (c *conns) sweep() {
	var unused []net.Conn
	if c.closed && c.sends == 0 {
		for conn := range c.open {
			unused = append(unused, conn)
		}
	}
	c.mu.Unlock()
	for _, conn := range unused {
		_ = conn.Close()
	}
}

type countedConn struct {
	net.Conn
	in *conns
}

func (c *countedConn) Close() error {
	c.in.mu.Lock()
	delete(c.in.open, c)
	c.in.mu.Unlock()
	return c.Conn.Close()
}
