package provider

import "net/http"

// Client returns a client for addresses that tenants chose and that are no destinations, such as the issuers of tokens. It reaches the
// addresses that a destination may have, by the same proxy. Its user bounds time and size. It keeps no connection open.
func (n Network) Client() *http.Client {
	r := n.route()
	return &http.Client{Transport: guarded{r, &http.Transport{
		Proxy: r.proxy, DialContext: r.dialer().DialContext, TLSHandshakeTimeout: dialTimeout,
		MaxResponseHeaderBytes: maxHeaders, DisableCompression: true, DisableKeepAlives: true,
	}}}
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
