package providertest

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// deniedNames are names with addresses that no destination may have.
var deniedNames = map[string]string{
	"loopback.test": "127.0.0.1", "metadata.test": "169.254.169.254", "mapped.test": "::ffff:127.0.0.1",
	"loopback6.test": "::1", "nat64.test": "64:ff9b::7f00:1", "dotted.127.0.0.1.test": "127.0.0.1",
}

// deniedHosts returns such addresses as hosts of a URL, in every notation.
func deniedHosts() []string {
	hosts := []string{
		"127.0.0.1", "127.1", "127.0.1", "127.255.255.254", "0177.0.0.1", "0x7f.0.0.1", "0x7f000001", "0X7F000001", "2130706433",
		"017700000001", "127.0.0.1.", "127.0.0.0x1", "0", "0.0.0.0", "localhost", "LOCALHOST", "loopback.test.",
		"[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[::ffff:0:127.0.0.1]",
		"[64:ff9b::7f00:1]", "[64:ff9b::127.0.0.1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]",
		"[2001:0:102:304::80ff:fffe]", "[2001:db8::5efe:127.0.0.1]", "[2001:db8::200:5efe:127.0.0.1]",
		"169.254.169.254", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::]",
		"2852039166", "0xa9fea9fe", "[fd00:ec2::254]", "[fd20:ce::254]", "100.100.100.200", "168.63.129.16", "192.0.0.192",
		"[fe80::1]", "[fe80::1%25lo]", "[::1%25lo]", "224.0.0.1", "239.255.255.255", "255.255.255.255", "[ff02::1]", "１２７.0.0.1",
		"127。0。0。1", "%31%32%37.0.0.1",
	}
	for name := range deniedNames {
		hosts = append(hosts, name)
	}
	return hosts
}

// denied fails when the dialler's control is removed (names), or the check of literals in New (numbers).
func (s Subject) denied(t *testing.T) {
	sink := s.sink(t)
	_, port, err := net.SplitHostPort(sink.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	resolver := DNS(t, deniedNames)
	for _, host := range deniedHosts() {
		cfg := s.config("http://" + host + ":" + port)
		cfg.Network = provider.Network{}
		if strings.Contains(host, ".test") {
			cfg.Network.Resolver = resolver
		}
		sender, err := s.New(cfg)
		if err != nil {
			noSecret(t, err)
			continue
		}
		err = sender.Send(t.Context(), Notifications(t)["info"])
		noSecret(t, err)
		if e := event.AsError(err); err == nil || e.Label != provider.LabelDenied || e.Class != event.Permanent {
			t.Errorf("%s: got %v, want it denied for good", host, err)
		}
		_ = sender.(io.Closer).Close()
	}
	if n := len(sink.Requests()); n != 0 {
		t.Errorf("%d requests came through", n)
	}
}

// far returns a network in which far.test, which no test could reach, has an allowed address.
func far(t *testing.T) provider.Network {
	n := Loopback()
	n.Resolver = DNS(t, map[string]string{"far.test": "192.0.2.1"})
	return n
}

func (s Subject) proxies(t *testing.T) {
	ca := NewCA(t)
	plain, secure := s.sink(t), ca.NewTLSSink(t, s.Serve, false, "far.test")
	for scheme, sink := range map[string]*Sink{"http": plain, "https": secure} {
		backend := sink.Listener.Addr()
		http, socks := HTTPProxy(t, backend, "user", proxySecret), SOCKSProxy(t, backend, "user", proxySecret)
		withUser := strings.Replace(http.URL, "http://", "http://user:"+proxySecret+"@", 1)
		for _, proxy := range []provider.Proxy{
			{Address: http.URL, Username: "user", Password: proxySecret},
			{Address: withUser},
			{Address: "socks5://" + socks.String(), Username: "user", Password: proxySecret},
		} {
			cfg := s.config(scheme + "://far.test")
			cfg.Network, cfg.Proxy, cfg.TLS.CA = far(t), proxy, ca.PEM()
			if err := s.send(t, cfg); err != nil {
				t.Errorf("%s by %.6s: %v (%v)", scheme, proxy.Address, err, errors.Unwrap(err))
			}
			if host := sink.Last(t).Host; host != "far.test" {
				t.Errorf("%s by %.6s: the destination saw host %q", scheme, proxy.Address, host)
			}
		}
		if n := len(sink.Requests()); n != 3*s.requests() {
			t.Errorf("%s: the destination got %d requests for 3 sends", scheme, n)
		}
	}
}

// onlyTheProxyResolves fails when a destination's name is looked up here although a tenant's proxy resolves it.
func (s Subject) onlyTheProxyResolves(t *testing.T) {
	sink := s.sink(t)
	proxy := HTTPProxy(t, sink.Listener.Addr(), "user", proxySecret)
	socks := SOCKSProxy(t, sink.Listener.Addr(), "user", proxySecret)
	// One name is unknown here, the other has another address here.
	network := provider.Network{Allow: loopbackProxyOnly, Resolver: DNS(t, map[string]string{"inner.test": "127.0.0.2"})}
	for _, address := range []string{"http://known-to-the-proxy.test", "http://inner.test"} {
		for _, proxyAddress := range []string{proxy.URL, "socks5://" + socks.String()} {
			cfg := s.config(address)
			cfg.Network, cfg.Proxy = network, provider.Proxy{Address: proxyAddress, Username: "user", Password: proxySecret}
			if err := s.send(t, cfg); err != nil {
				t.Errorf("%s by %.6s: %v", address, proxyAddress, err)
			}
		}
	}
	if n := len(sink.Requests()); n != 4*s.requests() {
		t.Errorf("the destination got %d requests for 4 sends", n)
	}
}

// deniedBehindProxy fails when only the proxy's own address is checked, not the one in the URL, or when the proxy's is not checked.
func (s Subject) deniedBehindProxy(t *testing.T) {
	sink := s.sink(t)
	proxy := HTTPProxy(t, sink.Listener.Addr(), "user", proxySecret)
	socks := SOCKSProxy(t, sink.Listener.Addr(), "user", proxySecret)
	resolver := DNS(t, map[string]string{"proxy.test": "127.0.0.1", "far.test": "192.0.2.1"})
	for _, address := range []string{"http://localhost", "https://localhost:8443", "http://LOCALHOST.", "http://a.localhost"} {
		cfg := s.config(address)
		cfg.Network = provider.Network{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.9/32")}, Resolver: resolver}
		cfg.Proxy = provider.Proxy{Address: "http://127.0.0.9:1", Username: "user", Password: proxySecret}
		want(t, s.send(t, cfg), event.Permanent, provider.LabelDenied)
	}
	for _, address := range []string{"http://127.0.0.2", "http://169.254.169.254", "https://[::1]", "http://2130706434", "http://0x7f.2"} {
		for _, proxyAddress := range []string{proxy.URL, "socks5://" + socks.String()} {
			cfg := s.config(address)
			cfg.Network = provider.Network{Allow: loopbackProxyOnly, Resolver: resolver}
			cfg.Proxy = provider.Proxy{Address: proxyAddress, Username: "user", Password: proxySecret}
			if sender, err := s.New(cfg); err == nil {
				t.Errorf("%s behind a proxy is taken", address)
				_ = sender.(io.Closer).Close()
			}
		}
	}
	_, port, _ := net.SplitHostPort(proxy.Listener.Addr().String())
	cfg := s.config("http://far.test")
	cfg.Network = provider.Network{Resolver: resolver}
	cfg.Proxy = provider.Proxy{Address: "http://proxy.test:" + port, Username: "user", Password: proxySecret}
	want(t, s.send(t, cfg), event.Permanent, provider.LabelDenied)
	if n := len(sink.Requests()) + len(proxy.Requests()); n != 0 {
		t.Errorf("%d requests came through", n)
	}
}

// loopbackProxyOnly allows the address that the kit's proxies listen on and no other loopback address.
var loopbackProxyOnly = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}

func (s Subject) failingProxy(t *testing.T) {
	sink := s.sink(t)
	proxy := HTTPProxy(t, sink.Listener.Addr(), "user", proxySecret)
	socks := SOCKSProxy(t, sink.Listener.Addr(), "user", proxySecret)
	gone := s.sink(t)
	gone.Close()
	for _, address := range []string{"http://far.test", "https://far.test"} {
		for _, proxyAddress := range []string{proxy.URL, "socks5://" + socks.String(), gone.URL} {
			cfg := s.config(address)
			cfg.Network = far(t)
			cfg.Proxy = provider.Proxy{Address: proxyAddress, Username: "user", Password: "wrong " + proxySecret}
			want(t, s.send(t, cfg), event.Retry, provider.LabelProxy)
		}
	}
	if n := len(sink.Requests()); n != 0 {
		t.Errorf("%d requests came through", n)
	}
}

// environmentProxy fails when the transport uses http.ProxyFromEnvironment, as Go's default does, or when a name that only the proxy
// knows is never tried. It also fails when the addresses of a name here are not checked: the proxy is the administrator's.
func (s Subject) environmentProxy(t *testing.T) {
	sink := s.sink(t)
	proxy := HTTPProxy(t, sink.Listener.Addr(), "user", proxySecret)
	u, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("user", proxySecret)
	t.Setenv("HTTP_PROXY", u.String())
	t.Setenv("http_proxy", u.String())
	t.Setenv("no_proxy", "")
	t.Setenv("NO_PROXY", "")
	direct := provider.Network{Allow: Loopback().Allow, Resolver: DNS(t, map[string]string{"far.test": "127.0.0.1"})}
	cfg := s.config("http://far.test:1") // nothing listens on port 1
	cfg.Network = direct
	want(t, s.send(t, cfg), event.Retry, provider.LabelConnect)
	if n := len(proxy.Requests()); n != 0 {
		t.Errorf("the environment's proxy got %d requests unasked", n)
	}
	cfg.Network.EnvironmentProxy = true
	if err := s.send(t, cfg); err != nil {
		t.Errorf("by the environment's proxy: %v", err)
	}
	cfg = s.config("http://known-to-the-proxy.test")
	cfg.Network = provider.Network{
		Allow: loopbackProxyOnly, Resolver: DNS(t, map[string]string{"inner.test": "127.0.0.2"}), EnvironmentProxy: true,
	}
	if err := s.send(t, cfg); err != nil {
		t.Errorf("a name that only the proxy knows: %v", err)
	}
	for _, address := range []string{"http://inner.test", "http://localhost:1"} {
		denied := s.config(address)
		denied.Network = cfg.Network
		if address == "http://localhost:1" { // localhost is never sent to a proxy
			denied.Network.Allow = nil
		}
		want(t, s.send(t, denied), event.Permanent, provider.LabelDenied)
	}
}

// customCA fails when certificates are not verified, or the CA is added to the system's instead of replacing them.
func (s Subject) customCA(t *testing.T) {
	ca := NewCA(t)
	sink := ca.NewTLSSink(t, s.Serve, false, "127.0.0.1")
	cfg := s.config(sink.URL)
	want(t, s.send(t, cfg), event.Retry, provider.LabelTLS)
	cfg.TLS.CA = NewCA(t).PEM()
	want(t, s.send(t, cfg), event.Retry, provider.LabelTLS)
	cfg.TLS.CA = ca.PEM()
	if err := s.send(t, cfg); err != nil {
		t.Errorf("with the CA: %v", err)
	}
	other := ca.NewTLSSink(t, nil, false, "other.test")
	cfg.Address = s.config(other.URL).Address
	want(t, s.send(t, cfg), event.Retry, provider.LabelTLS)
	if n := len(sink.Requests()) + len(other.Requests()); n != s.requests() {
		t.Errorf("%d requests came through for one send", n)
	}
}

func (s Subject) clientCertificate(t *testing.T) {
	ca := NewCA(t)
	sink := ca.NewTLSSink(t, func(w http.ResponseWriter, r *http.Request) {
		if r.TLS.Version < 0x0303 {
			w.WriteHeader(http.StatusTeapot)
		} else if s.Serve != nil {
			s.Serve(w, r)
		}
	}, true, "127.0.0.1")
	cfg := s.config(sink.URL)
	cfg.TLS.CA = ca.PEM()
	// With TLS 1.3 a server refuses after the handshake, so the client sees either the server's alert or the broken connection.
	if err := s.send(t, cfg); err == nil || event.AsError(err).Class != event.Retry {
		t.Errorf("without the certificate: got %v, want a retry", err)
	}
	cfg.TLS.Cert, cfg.TLS.Key = ca.Issue(t, "client")
	if err := s.send(t, cfg); err != nil {
		t.Errorf("with the certificate: %v", err)
	}
}
