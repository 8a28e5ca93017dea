package provider

import (
	"net"
	"net/http"
)

// Client returns a client for addresses that tenants chose and that are no destinations, such as the issuers of tokens. It reaches the
// addresses that a destination may have, by the same proxy. Its user bounds time and size. It keeps no connection open.
func (n Network) Client() *http.Client {
	dialer := &net.Dialer{Timeout: dialTimeout, Resolver: n.Resolver, Control: n.control}
	proxy := n.proxy()
	return &http.Client{Transport: guarded{&transport{network: n, proxy: proxy}, &http.Transport{
		Proxy: proxy, DialContext: dialer.DialContext, TLSHandshakeTimeout: dialTimeout,
		MaxResponseHeaderBytes: maxHeaders, DisableCompression: true, DisableKeepAlives: true,
	}}}
}

// guarded checks the address and returns the answer unchanged.
type guarded struct {
	*transport
	http *http.Transport
}

func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := g.checkBehindProxy(r); err != nil {
		return nil, err
	}
	return g.http.RoundTrip(r)
}
