package provider

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"notifier/internal/event"
)

// E3: a process that is stopped while it connects to a destination resumes a request that the next owner has made meanwhile. Fails
// when the fence is checked only at the beginning of a send.
func TestE3NoWholeRequestIsWrittenOnceAnotherReplicaOwnsTheDelivery(t *testing.T) {
	var replaced atomic.Bool
	var requests atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && string(body) == "{}" {
			requests.Add(1)
		}
	}))
	var first sync.Once
	server.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		first.Do(func() { replaced.Store(true) })
		return nil, nil
	}}
	server.StartTLS()
	defer server.Close()
	client, err := NewClient(Config{
		Address: server.URL,
		Network: Network{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		TLS:     TLS{CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
	}, ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	post := func() error {
		return client.Post(event.WithFence(t.Context(), func() bool { return !replaced.Load() }), Request{Body: []byte("{}")})
	}
	if err := post(); err == nil {
		t.Error("another replica took over while the connection was made: sent")
	}
	replaced.Store(false)
	if err := post(); err != nil || requests.Load() != 1 {
		t.Errorf("the owner itself: %d requests, %v", requests.Load(), err)
	}
}

// Fails when a request of the only replica, which needs no fence, is written in two parts.
func TestARequestWithoutAFenceIsOneWrite(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const requests = 20
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for read := make([]byte, 64<<10); ; {
			n, err := conn.Read(read)
			if err != nil {
				return
			}
			if got := string(read[:n]); !strings.HasPrefix(got, "POST ") || !strings.HasSuffix(got, "{}") {
				t.Errorf("a part of a request: %q", got)
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	}()
	client, err := NewClient(Config{
		Address: "http://" + l.Addr().String(), Network: Network{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	}, ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	for range requests {
		if err := client.Post(t.Context(), Request{Body: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
}
