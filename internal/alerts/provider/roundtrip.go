package provider

import (
	"context"
	"net/http"
	"net/http/httptrace"
)

// roundTrip makes a request whose context is traced. It makes the transport, which takes more than a kilobyte, for the first request: most of
// a cluster's thousands of Providers never send.
func (c *Client) roundTrip(r *http.Request) (*http.Response, error) {
	if c.transport.Load() == nil {
		c.transport.CompareAndSwap(nil, c.newTransport()) // one that another send made meanwhile has no connections yet
	}
	return c.transport.Load().RoundTrip(r)
}

// traced returns a context for requests, with which conns learns the connection of each. A send may be within one of another client, such as
// a login. WithClientTrace adds the other's trace to the given one for good, so such a send has a trace of its own.
func (c *Client) traced(ctx context.Context) context.Context {
	trace := &c.trace
	if httptrace.ContextClientTrace(ctx) != nil {
		trace = &httptrace.ClientTrace{GotConn: c.conns.got}
	}
	return httptrace.WithClientTrace(ctx, trace)
}

func (c *Client) newTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	config := c.tls
	if config == nil {
		config = defaultTLS()
	}
	return &http.Transport{
		Proxy:                  c.proxy,
		OnProxyConnectResponse: connectResult,
		DialContext:            c.conns.dialer(c.dialer().DialContext),
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
	}
}
