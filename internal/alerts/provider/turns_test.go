package provider

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// handshaking is a client's connection to a server, over a pipe. entered is closed when the client has the server's certificate, and the
// client goes on once proceed is closed.
type handshaking struct {
	conn             net.Conn
	entered, proceed chan struct{}
	done             chan error
}

// handshake begins a handshake of one of a client's connections.
func handshake(t *testing.T, c *conns, server *tls.Config) *handshaking {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { _ = there.Close() })
	conn, err := c.dialer(func(context.Context, string, string) (net.Conn, error) { return here, nil })(t.Context(), "tcp", "")
	if err != nil {
		t.Fatal(err)
	}
	h := &handshaking{conn: conn, entered: make(chan struct{}), proceed: make(chan struct{}), done: make(chan error, 1)}
	go func() { _ = tls.Server(there, server).Handshake() }()
	go func() {
		h.done <- tls.Client(conn, &tls.Config{
			InsecureSkipVerify: true,
			VerifyPeerCertificate: func([][]byte, [][]*x509.Certificate) error {
				close(h.entered)
				<-h.proceed
				return nil
			},
		}).Handshake()
		_ = conn.Close()
	}()
	return h
}

// begun reports whether the client has the server's certificate.
func (h *handshaking) begun() bool {
	synctest.Wait()
	select {
	case <-h.entered:
		return true
	default:
		return false
	}
}

// T6: fails when the certificates of a namespace's destinations are verified at once, a quarter of a second of a processor each; E5: when
// another namespace's wait for them, or each part of a handshake that a Provider reads for more than one of another Provider; and when a
// connection that is closed takes or keeps the turn.
func TestT6ANamespacesHandshakesAreProcessedInTurns(t *testing.T) {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	server := s.TLS.Clone()
	s.Close()
	synctest.Test(t, func(t *testing.T) {
		bad, good, foreign := &conns{namespace: "team-a"}, &conns{namespace: "team-a"}, &conns{namespace: "team-b"}
		first := handshake(t, bad, server)
		if !first.begun() {
			t.Fatal("the first handshake does not begin")
		}
		const queued, parts = 20, 5
		closed := handshake(t, bad, server)
		behind := make([]*handshaking, queued)
		for i := range behind {
			behind[i] = handshake(t, bad, server)
		}
		other := handshake(t, good, server)
		if closed.begun() || other.begun() || slices.ContainsFunc(behind, (*handshaking).begun) {
			t.Error("two handshakes of a namespace are processed at once")
		}
		if h := handshake(t, foreign, server); !h.begun() {
			t.Error("another namespace's handshake waits")
		} else {
			close(h.proceed)
		}
		close(closed.proceed)
		_ = closed.conn.Close()
		if err := <-closed.done; err == nil {
			t.Error("a handshake on a closed connection succeeds")
		}
		close(first.proceed)
		if err := <-first.done; err != nil {
			t.Error(err)
		}
		for !other.begun() {
			next := slices.IndexFunc(behind, (*handshaking).begun)
			if next < 0 {
				t.Fatal("no handshake begins")
			}
			close(behind[next].proceed)
			behind = slices.Delete(behind, next, next+1)
		}
		if before := queued - len(behind); before > parts {
			t.Errorf("a Provider waits for %d handshakes of another", before)
		}
		close(other.proceed)
		for _, h := range behind {
			close(h.proceed)
		}
		for _, h := range behind {
			if err := <-h.done; err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if n := clientTurns.Len() + namespaceTurns.Len(); n != 0 {
			t.Errorf("%d turns are kept", n)
		}
	})
}

// T6: fails when of a proxy that speaks TLS only the contents of its records count: each byte may have a record of its own, with more around it
// that are empty or change the key, all for the process to decrypt.
func TestT6TheRecordsOfAProxyCount(t *testing.T) {
	proxy := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		here, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer here.Close()
		for _, err = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n"); err == nil; {
			_, err = here.Write([]byte("x"))
		}
	}))
	defer proxy.Close()
	dialer, err := NewDialer(Config{
		Namespace: t.Name(), Timeout: time.Minute, Proxy: Proxy{Address: proxy.URL},
		TLS:     TLS{CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw})},
		Network: Network{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	conn, metered, err := dialer.DialContext(t.Context(), "tcp", "127.0.0.1:4222")
	if err != nil {
		t.Fatal(err)
	}
	defer metered.Close()
	if n, _ := io.CopyN(io.Discard, conn, handshakeBytes); n == 0 || n > handshakeBytes/8 {
		t.Errorf("%d bytes are read in a record each, want %d at most", n, handshakeBytes/8)
	}
	if !errors.Is(metered.Fault(), ErrTooMuch) {
		t.Errorf("the connection ends with %v", metered.Fault())
	}
}
