package provider

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/net/proxy"

	"notifier/internal/event"
)

// Dialer connects to a destination that does not speak HTTP, under the same rules as Client. It checks every address when it dials it,
// uses the Provider's proxy and applies the Provider's TLS material.
type Dialer struct {
	route
	namespace string
	tls       *tls.Config
	timeout   time.Duration
}

// NewDialer returns the Dialer for cfg. It does not connect. The error lists every fault of the proxy, the TLS material and the
// timeout, and quotes none of them.
func NewDialer(cfg Config) (*Dialer, error) {
	timeout, timeoutErr := cfg.timeout()
	way, proxyErr := cfg.route()
	tlsConfig, tlsErr := cfg.TLS.Config()
	if err := errors.Join(timeoutErr, proxyErr, tlsErr); err != nil {
		return nil, err
	}
	return &Dialer{route: way, namespace: cfg.Namespace, tls: tlsConfig, timeout: timeout}, nil
}

// Timeout returns the bound on one send.
func (d *Dialer) Timeout() time.Duration { return d.timeout }

// Keep takes a place among the connections that the Provider's namespace keeps between sends, and reports whether there was one. Without one
// the connection is to be closed after its send. The caller calls release when the connection is closed.
func (d *Dialer) Keep() (release func(), ok bool) {
	place, ok := kept.TryAcquire(d.namespace, 1)
	return sync.OnceFunc(func() { place.Release() }), ok
}

// TLS returns a copy of the Provider's TLS configuration for a host.
func (d *Dialer) TLS(host string) *tls.Config {
	c := d.tls.Clone()
	c.ServerName = host
	return c
}

// DialContext connects to a host and port, through the proxy if there is one. The bytes that come over the network are bounded to
// handshakeBytes by metered, which is conn or beneath it: those of a proxy that speaks TLS count too. The caller closes metered. Errors are
// for Classify.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (conn net.Conn, metered *Metered, err error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, nil, ErrDenied
	}
	// From the environment this takes the proxy for https, which passes a connection through unchanged.
	r := &http.Request{URL: &url.URL{Scheme: "https", Host: address}}
	via, err := d.via(r.WithContext(ctx))
	switch {
	case err != nil:
		return nil, nil, err
	case via == nil:
		conn, err = d.dialer().DialContext(ctx, network, address)
	case via.Scheme == "socks5" || via.Scheme == "socks5h": // as net/http
		conn, err = d.socks(ctx, via, network, address)
	default:
		if conn, metered, err = d.connect(ctx, via, address); err == nil {
			return conn, metered, nil
		}
		if _, known := errors.AsType[*event.Error](err); !known {
			err = &net.OpError{Op: "proxyconnect", Net: network, Err: err}
		}
	}
	if err != nil {
		return nil, nil, err
	}
	metered = d.meter(conn)
	return metered, metered, nil
}

func (d *Dialer) meter(conn net.Conn) *Metered {
	m := &Metered{}
	m.meter(conn, handshakeBytes, d, d.namespace)
	return m
}

// socks connects through a SOCKS5 proxy (RFC 1928), which resolves the host.
func (d *Dialer) socks(ctx context.Context, via *url.URL, network, address string) (net.Conn, error) {
	var auth *proxy.Auth
	if user := via.User; user != nil {
		password, _ := user.Password()
		auth = &proxy.Auth{User: user.Username(), Password: password}
	}
	dialer, err := proxy.SOCKS5("tcp", withPort(via, "1080"), auth, d.dialer())
	if err != nil {
		return nil, err
	}
	contextual, ok := dialer.(proxy.ContextDialer)
	if !ok {
		return nil, errors.New("the SOCKS5 dialer takes no context")
	}
	return contextual.DialContext(ctx, network, address)
}

// connect connects through an HTTP proxy by CONNECT (RFC 9110, section 9.3.6).
func (d *Dialer) connect(ctx context.Context, via *url.URL, address string) (net.Conn, *Metered, error) {
	port := "80"
	if via.Scheme == "https" {
		port = "443"
	}
	conn, err := d.dialer().DialContext(ctx, "tcp", withPort(via, port))
	if err != nil {
		return nil, nil, err
	}
	metered := d.meter(conn)
	stop := context.AfterFunc(ctx, func() { _ = metered.Close() })
	through := net.Conn(metered)
	if via.Scheme == "https" {
		secured := tls.Client(metered, d.TLS(via.Hostname()))
		err, through = secured.HandshakeContext(ctx), secured
	}
	if err == nil {
		err = askConnect(ctx, through, via.User, address)
	}
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		_ = metered.Close()
		return nil, nil, err
	}
	return through, metered, nil
}

// askConnect asks the proxy at the other end of conn to connect to the address.
func askConnect(ctx context.Context, conn net.Conn, user *url.Userinfo, address string) error {
	r := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if user != nil {
		password, _ := user.Password()
		r.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	r.Header.Set("User-Agent", "notifier")
	if err := r.Write(conn); err != nil {
		return err
	}
	head, err := readHead(conn)
	if err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(head)), r)
	if err != nil {
		return event.NewError(event.Retry, LabelProxy, "proxy's answer is no answer of HTTP", err)
	}
	_ = resp.Body.Close()
	return connectResult(ctx, nil, nil, resp)
}

// readHead reads up to the end of an answer's header and not a byte further: the bytes after it are the destination's, which may speak
// first.
func readHead(r io.Reader) ([]byte, error) {
	var head []byte
	for next := make([]byte, 1); len(head) < maxHeaders; {
		if _, err := io.ReadFull(r, next); err != nil {
			return nil, err
		}
		if head = append(head, next[0]); bytes.HasSuffix(head, []byte("\r\n\r\n")) {
			return head, nil
		}
	}
	return nil, event.NewError(event.Retry, LabelProxy, "proxy's answer is too long", nil)
}

// withPort returns a URL's host with its port, or with the given port if the URL has none.
func withPort(u *url.URL, port string) string {
	if own := u.Port(); own != "" {
		port = own
	}
	return net.JoinHostPort(u.Hostname(), port)
}
