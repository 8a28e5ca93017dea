package provider

import (
	"context"
	"net"
	"net/http"
)

// guardedBytes bounds the bytes that come over one connection of Network.Client, TLS included: a handshake, and an issuer's longest answer,
// 256 KiB, in records of ordinary length.
const guardedBytes = 512 << 10

// Client returns a client for addresses that the tenants of a namespace chose and that are no destinations, such as the issuers of tokens. It
// reaches the addresses that a destination may have, by the same proxy. What comes over its connections is bounded, and is processed in turns
// of the namespace, as handshakes with destinations are. Its user bounds time and size. It keeps no connection open.
func (n Network) Client(namespace string) *http.Client {
	r := n.route()
	transport := &http.Transport{
		Proxy: r.proxy, TLSHandshakeTimeout: dialTimeout,
		MaxResponseHeaderBytes: maxHeaders, DisableCompression: true, DisableKeepAlives: true,
	}
	dial := r.dialer().DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		metered := &Metered{}
		metered.meter(conn, guardedBytes, transport, namespace)
		return metered, nil
	}
	return &http.Client{Transport: guarded{r, transport}}
}

// guarded checks the address and returns the answer unchanged.
type guarded struct {
	route
	http *http.Transport
}

func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := g.via(r); err != nil {
		return nil, err
	}
	return g.http.RoundTrip(r)
}
