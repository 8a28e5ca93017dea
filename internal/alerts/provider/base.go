package provider

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
)

// base makes requests by net/http, on connections of its own. It makes its transport, which takes more than a kilobyte, for the first
// request: most of a cluster's thousands of Providers never send.
type base struct {
	route
	// tls is nil for defaultTLS, which is then made with the transport.
	tls   *tls.Config
	conns conns

	once sync.Once
	made atomic.Pointer[http.Transport]
	// trace is in the context of each request, unless another client's is.
	trace httptrace.ClientTrace
}

// roundTrip makes a request whose context is traced.
func (b *base) roundTrip(r *http.Request) (*http.Response, error) {
	b.once.Do(b.make)
	return b.made.Load().RoundTrip(r)
}

// traced returns a context for requests, with which conns learns the connection of each. A send may be within one of another client, such as
// a login. WithClientTrace adds the other's trace to the given one for good, so such a send has a trace of its own.
func (b *base) traced(ctx context.Context) context.Context {
	trace := &b.trace
	if httptrace.ContextClientTrace(ctx) != nil {
		trace = &httptrace.ClientTrace{GotConn: b.conns.got}
	}
	return httptrace.WithClientTrace(ctx, trace)
}

func (b *base) make() {
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
		DialContext:            b.conns.dialer(b.dialer().DialContext),
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    dialTimeout,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConnsPerHost:    idleConns,
		MaxResponseHeaderBytes: maxHeaders,
		// An answer is never inflated: inflating would defeat the bound on its length.
		DisableCompression: true,
		Protocols:          protocols,
		// Without pings a dead HTTP/2 connection is used again and again until the kernel closes it. What is not read yet is buffered, by
		// default 4 MiB of each answer, for as long as a send waits for its turn to read. The answers that wait must leave space for the
		// one that is read.
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: pingInterval, PingTimeout: pingInterval,
			MaxReceiveBufferPerStream: streamBuffer, MaxReceiveBufferPerConnection: (idleConns + 1) * streamBuffer,
		},
	})
}

// close closes idle connections at once, and those of sends under way when the sends end.
func (b *base) close() {
	if made := b.made.Load(); made != nil {
		made.CloseIdleConnections()
	}
	b.conns.close()
}
