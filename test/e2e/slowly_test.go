package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"
)

// slowly is a set of slow connections.
type slowly struct {
	conns  []net.Conn
	opened []time.Time
}

// open opens one more connection and sends the beginning of a request.
func (c *slowly) open(ctx context.Context, base, begin string) error {
	u, err := url.Parse(base)
	if err != nil {
		return err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return err
	}
	c.conns, c.opened = append(c.conns, conn), append(c.opened, time.Now())
	_, err = conn.Write([]byte(begin))
	return err
}

func (c *slowly) close() {
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

// drip sends one byte on every connection at each interval until the server has closed them all, and returns the longest
// life of one.
func (c *slowly) drip(ctx context.Context, every time.Duration) (longest time.Duration, err error) {
	type end struct {
		lived time.Duration
		err   error
	}
	ends := make(chan end)
	for i, conn := range c.conns {
		go func() {
			ends <- end{err: dripOne(ctx, conn, every), lived: time.Since(c.opened[i])}
		}()
	}
	open := 0
	for range c.conns {
		e := <-ends
		longest = max(longest, e.lived)
		if e.err != nil {
			err, open = e.err, open+1
		}
	}
	if open > 0 {
		err = fmt.Errorf("%d of %d connections: %w", open, len(c.conns), err)
	}
	return longest, err
}

// dripOne returns nil when the server has closed the connection. It ignores an answer before that, a 4xx for instance.
func dripOne(ctx context.Context, conn net.Conn, every time.Duration) error {
	buffer := make([]byte, 4096)
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("the connection is still open: %w", context.Cause(ctx))
		}
		if _, err := conn.Write([]byte("x")); err != nil {
			return nil
		}
		if err := conn.SetReadDeadline(time.Now().Add(every)); err != nil {
			return nil
		}
		if _, err := conn.Read(buffer); err != nil {
			var waiting net.Error
			if !errors.As(err, &waiting) || !waiting.Timeout() {
				return nil
			}
		}
	}
}
