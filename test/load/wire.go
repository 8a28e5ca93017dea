package load

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// connections is the number of keep-alive connections of a load.
const connections = 64

// Request composes a whole HTTP/1.1 request in wire format.
func Request(base, path string, header http.Header, body string) ([]byte, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", path, u.Host, len(body))
	if err := header.Write(&b); err != nil {
		return nil, err
	}
	b.WriteString("\r\n" + body)
	return b.Bytes(), nil
}

// Rate sends the requests in turn over keep-alive connections for the time of the window and returns the number of 2xx
// answers a second.
func Rate(ctx context.Context, base string, requests [][]byte, window time.Duration) (float64, error) {
	u, err := url.Parse(base)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var accepted, next atomic.Int64
	var wg sync.WaitGroup
	begin := time.Now()
	deadline := begin.Add(window)
	for range connections {
		wg.Go(func() {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
			if err != nil {
				cancel(err)
				return
			}
			defer conn.Close()
			r := bufio.NewReader(conn)
			for ctx.Err() == nil && time.Now().Before(deadline) {
				ok, err := exchange(conn, r, requests[int(next.Add(1))%len(requests)])
				if err != nil {
					cancel(err)
					return
				}
				if ok {
					accepted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	return float64(accepted.Load()) / time.Since(begin).Seconds(), nil
}

// exchange sends one request and reads its answer; ok reports whether it is a 2xx.
func exchange(conn net.Conn, r *bufio.Reader, req []byte) (ok bool, err error) {
	status, err := roundTrip(conn, r, req)
	return status/100 == 2, err
}
