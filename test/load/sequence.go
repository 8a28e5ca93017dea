package load

import (
	"bufio"
	"context"
	"errors"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Sequence is a load whose order is known. Each connection sends requests of its own, one after the other, and sends the
// next one once the one before was accepted. So the events of one object happen in one order if one connection sends
// them.
type Sequence struct {
	// Base is the server's URL.
	Base        string
	Connections int
	// Request composes request k (0, 1, …) of a connection into buf, which it may grow, and returns the whole request.
	Request func(buf []byte, connection, k int) []byte
	// For and Count end the load: no request begins after that time, and at most Count are sent; 0: no bound.
	For   time.Duration
	Count int
	// Rate is how many requests of all connections begin a second; 0: each begins when the one before it was answered.
	Rate float64
}

// Sent is the record of a Sequence: for each connection, the due time of each of its requests.
type Sent [][]time.Time

// Total returns the number of requests.
func (s Sent) Total() int {
	total := 0
	for _, times := range s {
		total += len(times)
	}
	return total
}

// Run sends until the load is over. A request that is not answered 2xx is an error. With a Rate, the recorded time of a
// late request is its due time.
func (s Sequence) Run(ctx context.Context) (Sent, error) {
	u, err := url.Parse(s.Base)
	if err != nil {
		return nil, err
	}
	g, ctx := errgroup.WithContext(ctx)
	sent := make(Sent, s.Connections)
	var next atomic.Int64
	var opened sync.WaitGroup
	opened.Add(s.Connections)
	var begin time.Time
	start := sync.OnceFunc(func() { begin = time.Now() })
	for c := range s.Connections {
		g.Go(func() error {
			conn, err := dial(ctx, u.Host, netip.Addr{})
			opened.Done()
			if err != nil {
				return err
			}
			defer conn.Close()
			opened.Wait() // the time of opening connections does not count
			start()
			r := bufio.NewReader(conn)
			var buf []byte
			for k := 0; ; k++ {
				n := int(next.Add(1)) - 1
				due := time.Now()
				if s.Rate > 0 {
					due = begin.Add(time.Duration(float64(n) / s.Rate * float64(time.Second)))
				}
				if s.Count > 0 && n >= s.Count || s.For > 0 && due.Sub(begin) > s.For {
					return nil
				}
				if err := waitUntil(ctx, due); err != nil {
					return err
				}
				buf = s.Request(buf[:0], c, k)
				sent[c] = append(sent[c], due)
				if ok, err := exchange(conn, r, buf); err != nil {
					return err
				} else if !ok {
					return errors.New("a request was not accepted")
				}
			}
		})
	}
	return sent, g.Wait()
}

// waitUntil waits until the time at, or returns at once if that has passed.
func waitUntil(ctx context.Context, at time.Time) error {
	wait := time.Until(at)
	if wait <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
