package provider

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
)

// base makes requests by net/http, with connections of its own. What that takes, more than a kilobyte, is made for the first request: of
// a cluster's thousands of Providers most rest.
type base struct {
	network *Network
	proxy   func(*http.Request) (*url.URL, error)
	// tls is nil for defaultTLS, which is made with the transport.
	tls   *tls.Config
	conns conns

	once sync.Once
	made atomic.Pointer[http.Transport]
}

// RoundTrip implements http.RoundTripper.
func (b *base) RoundTrip(r *http.Request) (*http.Response, error) {
	b.once.Do(b.make)
	return b.made.Load().RoundTrip(r)
}

func (b *base) make() {
	dialer := &net.Dialer{Timeout: dialTimeout, Resolver: b.network.Resolver, Control: b.network.control}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	config := b.tls
	if config == nil {
		config = defaultTLS()
	}
	b.made.Store(&http.Transport{
		Proxy:                  b.proxy,
		OnProxyConnectResponse: connectResult,
		DialContext:            b.conns.dialer(dialer.DialContext),
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    dialTimeout,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConnsPerHost:    idleConns,
		MaxResponseHeaderBytes: maxHeaders,
		// An answer is never inflated: it would only defeat the cap on its length.
		DisableCompression: true,
		Protocols:          protocols,
		// Without pings a dead HTTP/2 connection is picked again and again until the kernel gives it up.
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingInterval, PingTimeout: pingInterval},
	})
}

// close drops idle connections, and those of sends under way when they end.
func (b *base) close() {
	if made := b.made.Load(); made != nil {
		made.CloseIdleConnections()
	}
	b.conns.close()
}
