package server

import (
	"cmp"
	"container/heap"
	"container/list"
	"crypto/tls"
	"errors"
	"math"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"notifier/internal/fair"
	"notifier/internal/receiver/limit"
)

// conns caps the connections of one listener. At the cap it still accepts, since otherwise the first clients would exclude all others: the
// address with the most connections loses one. A connection that waits for a request is preferred, and the longest waiting; among equal
// addresses, that with the longest waiting connection loses one. An address with at most an eighth of all loses none that serves a request
// while another connection waits. The work per connection is logarithmic in the number of addresses, which is at most that of connections.
type conns struct {
	max     int
	whole   bool // IPv6 addresses count one by one
	onEvict func()

	mu    sync.Mutex
	total int
	tick  uint64 // counts the times that a connection began to wait
	peers map[netip.Addr]*peer
	heavy fair.Heap[*peer]
}

// peer is one client address and its connections, the oldest first.
type peer struct {
	address netip.Addr
	index   int       // in the heap
	all     list.List // of *conn
	waiting list.List // of *conn
	weight  int       // the number of connections, 0 if they are few and all serve requests
	since   uint64    // of the first waiting connection, the greatest number if none waits
}

// conn is an accepted connection that counts until it is closed.
type conn struct {
	net.Conn
	conns   *conns
	peer    *peer
	inAll   *list.Element
	waiting *list.Element // nil while a request is being served
	since   uint64        // tick at which it began to wait
	closed  bool

	begun  atomic.Bool // its first request has
	before int         // the bytes that were read before that
}

// maxBefore bounds the bytes that a client may send before its first request has begun: the handshake, in which crypto/tls reads 256 KiB of a
// client's certificates and keeps ten times as much when it has parsed them, the headers, and what TLS reads ahead.
const maxBefore = 64 << 10

// Read reads until the client has sent too much before its first request.
func (c *conn) Read(b []byte) (int, error) {
	if c.begun.Load() {
		return c.Conn.Read(b)
	}
	if c.before == maxBefore {
		return 0, errors.New("the client sends too much before its first request")
	}
	n, err := c.Conn.Read(b[:min(len(b), maxBefore-c.before)])
	c.before += n
	return n, err
}

func newConns(limit int, whole bool, onEvict func()) *conns {
	return &conns{max: limit, whole: whole, onEvict: onEvict, peers: make(map[netip.Addr]*peer)}
}

// admit counts a new connection and evicts another if needed, or returns nil to refuse it.
func (cs *conns) admit(nc net.Conn) *conn {
	c, evicted := cs.place(nc)
	if evicted != nil {
		_ = evicted.Close() // it is evicted even if Close fails
	}
	if evicted != nil || c == nil {
		cs.onEvict()
	}
	return c
}

func (cs *conns) place(nc net.Conn) (c, evicted *conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	address := cs.address(nc)
	p := cs.peers[address]
	if cs.total >= cs.max {
		heaviest := cs.heavy[0]
		switch first := heaviest.waiting.Front(); {
		case first != nil:
			evicted = first.Value.(*conn)
		case p == heaviest || p != nil && p.all.Len() >= heaviest.all.Len():
			return nil, nil // all its own connections serve requests: the new one is one too many
		default:
			evicted = heaviest.all.Front().Value.(*conn)
		}
		cs.drop(evicted)
		p = cs.peers[address] // the evicted connection may have been the last of its address
	}
	if p == nil {
		p = &peer{address: address}
		cs.peers[address] = p
		heap.Push(&cs.heavy, p)
	}
	c = &conn{Conn: nc, conns: cs, peer: p}
	c.inAll = p.all.PushBack(c)
	cs.wait(c)
	cs.total++
	return c, evicted
}

// wait notes that c waits for a request from now on.
func (cs *conns) wait(c *conn) {
	cs.tick++
	c.since = cs.tick
	c.waiting = c.peer.waiting.PushBack(c)
	cs.weigh(c.peer)
}

// weigh updates the position of a peer in the heap after a change.
func (cs *conns) weigh(p *peer) {
	p.weight, p.since = p.all.Len(), math.MaxUint64
	if first := p.waiting.Front(); first != nil {
		p.since = first.Value.(*conn).since
	} else if p.weight <= cs.max/8 {
		p.weight = 0
	}
	heap.Fix(&cs.heavy, p.index)
}

// drop ends the counting of c.
func (cs *conns) drop(c *conn) {
	if c.closed {
		return
	}
	c.closed = true
	cs.total--
	p := c.peer
	p.all.Remove(c.inAll)
	if c.waiting != nil {
		p.waiting.Remove(c.waiting)
	}
	if p.all.Len() == 0 {
		heap.Remove(&cs.heavy, p.index)
		delete(cs.peers, p.address)
		return
	}
	cs.weigh(p)
}

// state follows the state of a connection, as http.Server's ConnState hook. An HTTP/2 connection is active while it has a stream.
func (cs *conns) state(nc net.Conn, s http.ConnState) {
	if secured, ok := nc.(*tls.Conn); ok {
		nc = secured.NetConn()
	}
	c, ok := nc.(*conn)
	if !ok {
		return
	}
	if s == http.StateActive {
		c.begun.Store(true)
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	switch {
	case c.closed:
	case s == http.StateActive && c.waiting != nil:
		c.peer.waiting.Remove(c.waiting)
		c.waiting = nil
		cs.weigh(c.peer)
	case s == http.StateIdle && c.waiting == nil:
		cs.wait(c)
	}
}

// open returns the number of connections.
func (cs *conns) open() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.total
}

// Close closes the connection and ends its counting.
func (c *conn) Close() error {
	c.conns.mu.Lock()
	c.conns.drop(c)
	c.conns.mu.Unlock()
	return c.Conn.Close()
}

// cappedListener accepts the connections that conns admits.
type cappedListener struct {
	net.Listener
	conns *conns
}

func (l cappedListener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.conns.admit(nc); c != nil {
			return c, nil
		}
		// Reset rather than close: no state of it may stay in the kernel.
		if tcp, ok := nc.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = nc.Close()
	}
}

// address returns the address by which the connections of a peer are counted.
func (cs *conns) address(nc net.Conn) netip.Addr {
	tcp, ok := nc.RemoteAddr().(*net.TCPAddr)
	switch {
	case !ok:
		return netip.Addr{}
	case cs.whole:
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return limit.AddressKey(tcp.AddrPort().Addr())
}

// Before implements fair.HeapItem: the peer that loses a connection next is before the others.
func (p *peer) Before(other *peer) bool {
	return cmp.Or(cmp.Compare(other.weight, p.weight), cmp.Compare(other.all.Len(), p.all.Len()), cmp.Compare(p.since, other.since)) < 0
}

// Index implements fair.HeapItem.
func (p *peer) Index() *int { return &p.index }

// keepAlive is the interval at which the kernel probes an idle connection, so that vanished peers do not count for long.
const keepAlive = 30 * time.Second
