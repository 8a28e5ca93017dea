package provider

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// toLoopback returns a client for a destination at a port of this machine.
func toLoopback(t *testing.T, address string, authority []byte, o ClientOptions) *Client {
	t.Helper()
	c, err := NewClient(Config{
		Namespace: t.Name(), Address: address, TLS: TLS{CA: authority}, Timeout: time.Minute,
		Network: Network{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// pinging is a server of HTTP/2 that answers one request and then sends PINGs for as long as they are read.
type pinging struct {
	window chan int64 // of the client, for a stream and for the connection
	failed chan error // to write
}

func (p pinging) serve(c net.Conn) error {
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return err
	}
	f := http2.NewFramer(c, c)
	if err := f.WriteSettings(); err != nil {
		return err
	}
	for asked := false; !asked; {
		frame, err := f.ReadFrame()
		if err != nil {
			return err
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			size, _ := frame.Value(http2.SettingInitialWindowSize)
			p.window <- int64(size)
		case *http2.WindowUpdateFrame:
			p.window <- int64(frame.Increment)
		case *http2.HeadersFrame:
			var block bytes.Buffer
			err = errors.Join(hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: "200"}), f.WriteSettingsAck(),
				f.WriteHeaders(http2.HeadersFrameParam{StreamID: frame.StreamID, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}))
			asked = true
		}
		if err != nil {
			return err
		}
	}
	go func() { _, _ = io.Copy(io.Discard, c) }()
	for {
		if err := f.WritePing(false, [8]byte{1}); err != nil {
			return err
		}
	}
}

// T6: fails when a connection between sends may have frames for ever, each of which takes the processor; when an answer that is not read yet
// is buffered by more than 64 KiB.
func TestT6ADestinationThatSaysTooMuchOverHTTP2IsCutOff(t *testing.T) {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: s.TLS.Certificates, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := pinging{window: make(chan int64, 10), failed: make(chan error, 1)}
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = p.serve(c)
		}
		p.failed <- err
	}()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	c := toLoopback(t, "https://"+l.Addr().String(), authority, ClientOptions{})
	if err := c.Post(t.Context(), Request{Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if n := <-p.window; n != streamBuffer {
		t.Errorf("%d bytes of a stream are buffered, want %d", n, streamBuffer)
	}
	if n := <-p.window; n > (idleConns+1)*streamBuffer {
		t.Errorf("%d bytes of a connection are buffered, want %d at most", n, (idleConns+1)*streamBuffer)
	}
	select {
	case err := <-p.failed:
		t.Logf("the connection was cut off: %v", err)
	case <-time.After(20 * time.Second):
		t.Error("PINGs are read for 20 s though no send is under way")
	}
}

// unending accepts connections at an address and sends each a certificate that does not end.
func unending(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	record := func(b []byte) []byte { return append([]byte{22, 3, 3, byte(len(b) >> 8), byte(len(b))}, b...) }
	hello := append([]byte{2, 0, 0, 38, 3, 3}, make([]byte, 32)...)
	hello = append(hello, 0, 0xC0, 0x2F, 0) // TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
	certificate := append([]byte{11, 3, 255, 240}, make([]byte, 240<<10)...)
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go func() { _, _ = io.Copy(io.Discard, c) }()
			_, sent := c.Write(record(hello))
			for rest := certificate; len(rest) > 0 && sent == nil; rest = rest[min(len(rest), 16384):] {
				_, sent = c.Write(record(rest[:min(len(rest), 16384)]))
			}
		}
	}()
	return l.Addr().String()
}

// T6: fails when a handshake is read for as long as it lasts: crypto/tls keeps 256 KiB of a certificate.
func TestT6ACertificateThatDoesNotEndIsCutOff(t *testing.T) {
	address := unending(t)
	dialer, err := NewDialer(Config{
		Namespace: t.Name(), Timeout: time.Minute, Proxy: Proxy{Address: "https://" + address},
		Network: Network{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), dialTimeout)
	defer cancel()
	for name, send := range map[string]func() error{
		"of a destination": func() error {
			return toLoopback(t, "https://"+address, nil, ClientOptions{}).Post(ctx, Request{Body: []byte("{}")})
		},
		"of a proxy": func() error {
			_, _, err := dialer.DialContext(ctx, "tcp", "127.0.0.1:4222")
			return err
		},
	} {
		began := time.Now()
		err := send()
		if took := time.Since(began); err == nil || took > dialTimeout/2 {
			t.Errorf("%s: after %s: %v", name, took, err)
		}
	}
}

// relay is a proxy that speaks TLS.
func relay(w http.ResponseWriter, r *http.Request) {
	there, err := net.Dial("tcp", r.Host)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer there.Close()
	here, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer here.Close()
	_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
	go func() { _, _ = io.Copy(there, here) }()
	_, _ = io.Copy(here, there)
}

// Fails when the allowance of a send is not found behind the TLS of a proxy.
func TestAnAnswerOfFullLengthArrivesThroughAProxyThatSpeaksTLS(t *testing.T) {
	const reply = 1 << 20
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, reply)) }))
	defer s.Close()
	p := httptest.NewTLSServer(http.HandlerFunc(relay))
	defer p.Close()
	defer p.CloseClientConnections()
	c, err := NewClient(Config{
		Namespace: t.Name(), Address: s.URL, TLS: TLS{CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})},
		Timeout: time.Minute, Proxy: Proxy{Address: p.URL}, Network: Network{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	}, ClientOptions{MaxReply: reply})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if answer, err := c.Fetch(t.Context(), Request{Body: []byte("{}")}); err != nil || len(answer) != reply {
		t.Errorf("%d bytes arrive: %v", len(answer), err)
	}
}

// Fails when the bound on what a connection may read counts the answers of earlier sends, or those of other sends at a time; or when the
// answers that wait to be read take all of the buffer of a connection.
func TestAnswersOfFullLengthArriveOverOneConnection(t *testing.T) {
	const reply = 1 << 20
	for name, h2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, reply)) }))
			s.EnableHTTP2 = h2
			s.StartTLS()
			defer s.Close()
			c := toLoopback(t, s.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), ClientOptions{MaxReply: reply})
			for range 5 {
				sends := make(chan error, idleConns)
				for range idleConns {
					go func() {
						answer, err := c.Fetch(t.Context(), Request{Body: []byte("{}")})
						if err == nil && len(answer) != reply {
							err = io.ErrUnexpectedEOF
						}
						sends <- err
					}()
				}
				for range idleConns {
					if err := <-sends; err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}
