package provider

import (
	"context"
	"net"
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

// kept are the places of the connections that are kept.
var kept = fair.NewCapacities[string](fair.NewCapacity(keptTotal), keptConns, keptReserve)

// conns are the connections of one client. net/http closes on request only the connections that it has filed as idle. It files an
// HTTP/2 connection a moment after its last answer was read, and the connection would then stay for the whole idle timeout. So
// connections are also closed by count: once no send is under way, all of them if the client is closed, else those without a place among
// the connections that its namespace keeps.
type conns struct {
	namespace string

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
		counted := &countedConn{Conn: conn, in: c}
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

// sweep closes the connections that are not kept, unless a send is under way. The caller has locked mu, and sweep unlocks it, since Close
// takes it again.
func (c *conns) sweep() {
	var unused []*countedConn
	if c.sends == 0 {
		for conn := range c.open {
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
	net.Conn
	in    *conns
	kept  bool
	place fair.KeyUse[string]
}

func (c *countedConn) Close() error {
	c.in.mu.Lock()
	delete(c.in.open, c)
	c.place.Release()
	c.in.mu.Unlock()
	return c.Conn.Close()
}
