package load

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"net/url"
	"sync"
	"time"
)

// Slow is a client that opens many connections and leaves a request unfinished on each of them.
type Slow struct {
	Base        string
	From        netip.Addr
	Connections int
	// Begin is sent on each connection at once. Drip is sent after that, once per Every.
	Begin, Drip []byte
	Every       time.Duration
}

// SlowConnections are the connections of a Slow.
type SlowConnections struct {
	conns []net.Conn
	wg    sync.WaitGroup
}

// Open opens all connections. They continue until the server closes them, or Close does.
func (s Slow) Open(ctx context.Context) (*SlowConnections, error) {
	u, err := url.Parse(s.Base)
	if err != nil {
		return nil, err
	}
	d := &SlowConnections{}
	for range s.Connections {
		conn, err := dial(ctx, u.Host, s.From)
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		d.conns = append(d.conns, conn)
		gone := make(chan struct{})
		d.wg.Go(func() {
			defer close(gone)
			_, _ = io.Copy(io.Discard, conn)
		})
		d.wg.Go(func() { s.dawdle(conn, gone) })
	}
	return d, nil
}

// dawdle sends on one connection until it is gone.
func (s Slow) dawdle(conn net.Conn, gone <-chan struct{}) {
	tick := time.NewTicker(s.Every)
	defer tick.Stop()
	for next := s.Begin; ; next = s.Drip {
		_, _ = conn.Write(next) // a closed connection is detected below
		select {
		case <-gone:
			return
		case <-tick.C:
		}
	}
}

// Wait returns when the server has closed all connections, or with an error when ctx ends.
func (d *SlowConnections) Wait(ctx context.Context) error {
	closed := make(chan struct{})
	go func() { d.wg.Wait(); close(closed) }()
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close closes all connections.
func (d *SlowConnections) Close() error {
	for _, conn := range d.conns {
		_ = conn.Close() // the server may have, before
	}
	d.wg.Wait()
	return nil
}
