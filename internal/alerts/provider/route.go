package provider

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"golang.org/x/net/http/httpproxy"

	"notifier/internal/event"
)

// route is the way to the destinations of one Provider: which addresses may be reached, and by which proxy.
type route struct {
	network Network
	// proxy returns the proxy for a request, and is nil for no proxy.
	proxy func(*http.Request) (*url.URL, error)
	// own means that the proxy is the tenant's.
	own bool
}

// route returns the route without a proxy of a tenant's.
func (n Network) route() route {
	r := route{network: n}
	if n.EnvironmentProxy {
		choose := httpproxy.FromEnvironment().ProxyFunc()
		r.proxy = func(r *http.Request) (*url.URL, error) { return choose(r.URL) }
	}
	return r
}

// route returns the Provider's route, by its own proxy if it has one.
func (c Config) route() (route, error) {
	if c.Proxy.Address == "" {
		return c.Network.route(), nil
	}
	u, addressErr := c.Network.ParseAddress(c.Proxy.Address, "http", "https", "socks5")
	if err := cmp.Or(addressErr, CheckPair(c.Proxy.Username, c.Proxy.Password)); err != nil {
		return route{}, fmt.Errorf("proxy: %w", err)
	}
	if c.Proxy.Username != "" || c.Proxy.Password != "" {
		u.User = url.UserPassword(c.Proxy.Username, c.Proxy.Password)
	}
	return route{network: c.Network, proxy: http.ProxyURL(u), own: true}, nil
}

// dialer returns a net.Dialer that checks every address.
func (r *route) dialer() *net.Dialer {
	return &net.Dialer{Timeout: dialTimeout, Resolver: r.network.Resolver, Control: r.network.control}
}

// via returns the proxy for a request, nil for none. It checks the destination's host if a proxy will dial it in our place: the dialler
// checks the proxy itself, and a destination without a proxy. A tenant's own proxy may know names that are unknown here, and its owner
// decides which addresses it reaches. The environment's proxy is the administrator's: the addresses of a tenant's name here must be allowed,
// and a name unknown here is left to the proxy to resolve.
func (r *route) via(req *http.Request) (*url.URL, error) {
	if r.proxy == nil {
		return nil, nil
	}
	proxy, err := r.proxy(req)
	switch {
	case err != nil:
		return nil, event.NewError(event.Retry, LabelProxy, "proxy address is not valid", err)
	case proxy == nil:
		return nil, nil
	case r.own:
		return proxy, r.network.checkNamed(req.URL.Hostname())
	default:
		return proxy, r.network.checkHost(req.Context(), req.URL.Hostname())
	}
}
