package load

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Flood is a load that only counts its answers.
type Flood struct {
	// Base is the server's URL. Requests are results of Request; they are sent in turn.
	Base     string
	Requests [][]byte
	// From is the source address of the flood; on loopback any of 127.0.0.0/8.
	From        netip.Addr
	Connections int
	// Count ends the flood after so many requests; 0: only its context does.
	Count int
}

// Answers counts answers by status; 0 counts connections that ended without one.
type Answers map[int]int

// Total returns the number of answers.
func (a Answers) Total() int {
	total := 0
	for status, n := range a {
		if status != 0 {
			total += n
		}
	}
	return total
}

// Run sends requests until ctx ends, on each connection one after the other as fast as answers arrive. A connection that
// the server closes is opened again.
func (f Flood) Run(ctx context.Context) (Answers, error) {
	u, err := url.Parse(f.Base)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	all := Answers{}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range f.Connections {
		wg.Go(func() {
			mine := f.one(ctx, u.Host, &next)
			mu.Lock()
			defer mu.Unlock()
			for status, n := range mine {
				all[status] += n
			}
		})
	}
	wg.Wait()
	return all, nil
}

// one runs one connection; next is the number of the next request of all.
func (f Flood) one(ctx context.Context, host string, next *atomic.Int64) Answers {
	mine := Answers{}
	take := func() (req []byte, ok bool) {
		i := int(next.Add(1)) - 1
		return f.Requests[i%len(f.Requests)], ctx.Err() == nil && (f.Count == 0 || i < f.Count)
	}
	req, ok := take()
	for ok {
		conn, err := dial(ctx, host, f.From)
		if err != nil {
			mine[0]++
			req, ok = take()
			continue
		}
		r := bufio.NewReader(conn)
		for err == nil && ok {
			var status int
			status, err = roundTrip(conn, r, req)
			mine[status]++
			req, ok = take()
		}
		_ = conn.Close()
	}
	return mine
}

func dial(ctx context.Context, host string, from netip.Addr) (net.Conn, error) {
	d := net.Dialer{}
	if from.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	return d.DialContext(ctx, "tcp", host)
}

// atOnce is how much is written before an answer is read. The rest is written while it is read, since a server may
// answer, and stop reading, in the middle of a request.
const atOnce = 64 << 10

// roundTrip sends one request and reads its whole answer. The status is 0 without an answer; io.EOF says that the server
// will close the connection.
func roundTrip(conn net.Conn, r *bufio.Reader, req []byte) (status int, err error) {
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return 0, err
	}
	if len(req) > atOnce {
		written := make(chan struct{})
		go func() {
			defer close(written)
			_, _ = conn.Write(req)
		}()
		defer func() {
			if err != nil {
				_ = conn.Close() // ends the write
			}
			<-written
		}()
	} else if _, err := conn.Write(req); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if err == nil && resp.Close {
		err = io.EOF
	}
	return resp.StatusCode, err
}

// Sample is one request of a Sampler.
type Sample struct {
	Status int
	Took   time.Duration
}

// Sampler is a client that sends at intervals and keeps the result of every request.
type Sampler struct {
	Base    string
	Request []byte
	From    netip.Addr
	// Every is the time between two requests, from start to start; a request that takes longer delays the next. The
	// first request is sent Every and After after the connection.
	Every, After time.Duration
}

// Run samples over one keep-alive connection until ctx ends; the request in flight then is still sampled.
func (s Sampler) Run(ctx context.Context) ([]Sample, error) {
	u, err := url.Parse(s.Base)
	if err != nil {
		return nil, err
	}
	conn, err := dial(ctx, u.Host, s.From)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	select {
	case <-ctx.Done():
		return nil, nil
	case <-time.After(s.After):
	}
	tick := time.NewTicker(s.Every)
	defer tick.Stop()
	var samples []Sample
	for {
		select {
		case <-ctx.Done():
			return samples, nil
		case <-tick.C:
		}
		begin := time.Now()
		status, err := roundTrip(conn, r, s.Request)
		samples = append(samples, Sample{Status: status, Took: time.Since(begin)})
		if err != nil {
			return samples, fmt.Errorf("sample %d: %w", len(samples), err)
		}
	}
}

// Percentile returns the time within which that share of the samples, between 0 and 1, was answered.
func Percentile(samples []Sample, share float64) time.Duration {
	if len(samples) == 0 {
		return 0
	}
	took := make([]time.Duration, len(samples))
	for i, s := range samples {
		took[i] = s.Took
	}
	slices.Sort(took)
	return took[min(len(took)-1, int(share*float64(len(took))))]
}

// Median returns the middle of values, which must not be empty.
func Median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
