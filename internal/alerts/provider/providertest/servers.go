package providertest

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"sync"
	"testing"

	"notifier/internal/alerts/provider"
)

// Loopback returns the default Network with the loopback allowed.
func Loopback() provider.Network {
	return provider.Network{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}
}

// Request is one request as a Sink received it.
type Request struct {
	Method, Host string
	// Path is the path as it was sent, with its escapes.
	Path   string
	Query  url.Values
	Header http.Header
	Body   []byte
}

// Sink is a destination that keeps the requests sent to it.
type Sink struct {
	*httptest.Server
	mu       sync.Mutex
	requests []Request
}

// NewSink starts a plain http Sink that answers with h; nil answers 200.
func NewSink(tb testing.TB, h http.HandlerFunc) *Sink {
	tb.Helper()
	s := newSink(h)
	s.Start()
	tb.Cleanup(s.Close)
	return s
}

func newSink(h http.HandlerFunc) *Sink {
	s := &Sink{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.mu.Lock()
		s.requests = append(s.requests, Request{r.Method, r.Host, r.URL.EscapedPath(), r.URL.Query(), r.Header.Clone(), body})
		s.mu.Unlock()
		if h != nil {
			h(w, r)
		}
	}))
	return s
}

// Refusing is an address at which connections are refused. The port of a server that was closed may be that of another program's by then.
const Refusing = "127.0.0.1:1"

// Requests returns the requests received so far.
func (s *Sink) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Last returns the last request and fails the test if there was none.
func (s *Sink) Last(t *testing.T) Request {
	t.Helper()
	all := s.Requests()
	if len(all) == 0 {
		t.Fatal("the sink got no request")
	}
	return all[len(all)-1]
}

// answer returns a handler for one status. No tenant may read its body.
func answer(status int, header map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		if status != http.StatusNoContent && status != http.StatusNotModified {
			_, _ = io.WriteString(w, replySecret)
		}
	}
}

// HTTPProxy starts a proxy that requires the credentials user:password. It sends the requests for every host to the server at backend,
// so that tests can send to any name.
func HTTPProxy(tb testing.TB, backend net.Addr, user, password string) *Sink {
	tb.Helper()
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	return NewSink(tb, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != want {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		if r.Method == http.MethodConnect {
			tunnel(w, backend)
			return
		}
		out := r.Clone(r.Context())
		out.RequestURI, out.URL.Host = "", backend.String()
		out.Header.Del("Proxy-Authorization")
		resp, err := http.DefaultTransport.RoundTrip(out)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	})
}

func tunnel(w http.ResponseWriter, backend net.Addr) {
	up, err := net.Dial("tcp", backend.String())
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	down, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		_ = up.Close()
		return
	}
	_, _ = io.WriteString(down, "HTTP/1.1 200 OK\r\n\r\n")
	pipe(down, up)
}

// pipe joins two connections until one ends.
func pipe(a, b net.Conn) {
	var wg sync.WaitGroup
	for _, c := range [][2]net.Conn{{a, b}, {b, a}} {
		wg.Go(func() {
			_, _ = io.Copy(c[0], c[1])
			_ = c[0].Close()
			_ = c[1].Close()
		})
	}
	wg.Wait()
}

// socksProxy starts a SOCKS5 proxy that requires the kit's credentials and connects every client to backend. It returns its address.
func socksProxy(t *testing.T, backend net.Addr) string {
	t.Helper()
	return listen(t, func(c net.Conn) {
		_ = serveSOCKS(c, backend) // the client sees a broken connection, which its test checks
	})
}

// serveSOCKS speaks RFC 1928 with RFC 1929 credentials, as far as a well-behaved client needs.
func serveSOCKS(c net.Conn, backend net.Addr) error {
	read := func(n int) ([]byte, error) {
		b := make([]byte, n)
		_, err := io.ReadFull(c, b)
		return b, err
	}
	head, err := read(2)
	if err != nil {
		return err
	}
	if _, err = read(int(head[1])); err != nil { // the methods offered
		return err
	}
	_, _ = c.Write([]byte{5, 2})
	want := fmt.Sprintf("\x01\x04user%c%s", len(proxySecret), proxySecret)
	got, err := read(len(want))
	if err != nil {
		return err
	}
	if string(got) != want {
		_, err = c.Write([]byte{1, 1})
		return err
	}
	_, _ = c.Write([]byte{1, 0})
	if head, err = read(5); err != nil { // version, command, reserved, kind of address and its first byte
		return err
	}
	rest := map[byte]int{1: 3 + 2, 3: int(head[4]) + 2, 4: 15 + 2}[head[3]]
	if _, err = read(rest); err != nil {
		return err
	}
	up, err := net.Dial("tcp", backend.String())
	if err != nil {
		return err
	}
	_, _ = c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	pipe(c, up)
	return nil
}
