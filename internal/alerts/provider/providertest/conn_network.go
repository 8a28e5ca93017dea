package providertest

import (
	"io"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// denied fails when the dialler's control is removed (names), or the check of literals in New (numbers).
func (s Conn) denied(t *testing.T) {
	server := s.Start(t, nil)
	_, port, err := net.SplitHostPort(server.Addr.String())
	if err != nil {
		t.Fatal(err)
	}
	resolver := DNS(t, deniedNames)
	for _, host := range deniedHosts() {
		s.cases.Add(1)
		cfg := s.config(s.plain(host + ":" + port))
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
	if n := server.Received(); n != 0 {
		t.Errorf("%d messages came through", n)
	}
}

func (s Conn) proxies(t *testing.T) {
	ca := NewCA(t)
	plain, secure := s.Start(t, nil), s.Start(t, serverTLS(t, ca, false, "far.test"))
	for address, server := range map[string]Server{s.plain("far.test:1"): plain, s.secure("far.test:1"): secure} {
		backend := server.Addr
		http, socks := HTTPProxy(t, backend, "user", proxySecret), SOCKSProxy(t, backend, "user", proxySecret)
		withUser := strings.Replace(http.URL, "http://", "http://user:"+proxySecret+"@", 1)
		for _, proxy := range []provider.Proxy{
			{Address: http.URL, Username: "user", Password: proxySecret},
			{Address: withUser},
			{Address: "socks5://" + socks.String(), Username: "user", Password: proxySecret},
		} {
			cfg := s.config(address)
			cfg.Network, cfg.Proxy, cfg.TLS.CA = far(t), proxy, ca.PEM()
			if strings.HasPrefix(address, s.Plain+":") {
				cfg.TLS.CA = nil
			}
			if err := s.send(t, cfg); err != nil {
				t.Errorf("%s by %.6s: %v", address, proxy.Address, err)
			}
		}
		if n := server.Received(); n != 3 {
			t.Errorf("%s: %d messages of 3 sends", address, n)
		}
	}
}

// onlyTheProxyResolves fails when a destination's name is looked up here although a tenant's proxy resolves it.
func (s Conn) onlyTheProxyResolves(t *testing.T) {
	server := s.Start(t, nil)
	proxy, socks := HTTPProxy(t, server.Addr, "user", proxySecret), SOCKSProxy(t, server.Addr, "user", proxySecret)
	network := provider.Network{Allow: loopbackProxyOnly, Resolver: DNS(t, map[string]string{"inner.test": "127.0.0.2"})}
	for _, host := range []string{"known-to-the-proxy.test:1", "inner.test:1"} {
		for _, proxyAddress := range []string{proxy.URL, "socks5://" + socks.String()} {
			cfg := s.config(s.plain(host))
			cfg.Network, cfg.Proxy = network, provider.Proxy{Address: proxyAddress, Username: "user", Password: proxySecret}
			if err := s.send(t, cfg); err != nil {
				t.Errorf("%s by %.6s: %v", host, proxyAddress, err)
			}
		}
	}
	if n := server.Received(); n != 4 {
		t.Errorf("%d messages of 4 sends", n)
	}
}

// deniedBehindProxy fails when only the proxy's own address is checked, not the one in the URL, or when the proxy's is not checked.
func (s Conn) deniedBehindProxy(t *testing.T) {
	server := s.Start(t, nil)
	proxy, socks := HTTPProxy(t, server.Addr, "user", proxySecret), SOCKSProxy(t, server.Addr, "user", proxySecret)
	resolver := DNS(t, map[string]string{"proxy.test": "127.0.0.1", "far.test": "192.0.2.1"})
	for _, host := range []string{
		"localhost:1", "LOCALHOST.:1", "a.localhost:1", "127.0.0.2:1", "169.254.169.254:1", "[::1]:1", "2130706434:1",
	} {
		for _, proxyAddress := range []string{proxy.URL, "socks5://" + socks.String()} {
			cfg := s.config(s.plain(host))
			cfg.Network = provider.Network{Allow: loopbackProxyOnly, Resolver: resolver}
			if strings.Contains(strings.ToLower(host), "localhost") {
				cfg.Network.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.9/32")}
				proxyAddress = "http://127.0.0.9:1"
			}
			cfg.Proxy = provider.Proxy{Address: proxyAddress, Username: "user", Password: proxySecret}
			sender, err := s.New(cfg)
			if err == nil {
				err = sender.Send(t.Context(), Notifications(t)["info"])
				want(t, err, event.Permanent, provider.LabelDenied)
				_ = sender.(io.Closer).Close()
			}
			noSecret(t, err)
		}
	}
	_, port, _ := net.SplitHostPort(proxy.Listener.Addr().String())
	for _, scheme := range []string{"http", "socks5"} {
		cfg := s.config(s.plain("far.test:1"))
		cfg.Network = provider.Network{Resolver: resolver}
		cfg.Proxy = provider.Proxy{Address: scheme + "://proxy.test:" + port, Username: "user", Password: proxySecret}
		want(t, s.send(t, cfg), event.Permanent, provider.LabelDenied)
	}
	if n := server.Received() + len(proxy.Requests()); n != 0 {
		t.Errorf("%d messages and requests came through", n)
	}
}

func (s Conn) failingProxy(t *testing.T) {
	server := s.Start(t, nil)
	proxy, socks := HTTPProxy(t, server.Addr, "user", proxySecret), SOCKSProxy(t, server.Addr, "user", proxySecret)
	gone := NewSink(t, nil)
	gone.Close()
	babbling := listen(t, func(c net.Conn) {
		for block := strings.Repeat(replySecret, 1000); ; {
			if _, err := io.WriteString(c, block); err != nil {
				return
			}
		}
	})
	for _, address := range []string{s.plain("far.test:1"), s.secure("far.test:1")} {
		for _, proxyAddress := range []string{proxy.URL, "socks5://" + socks.String(), gone.URL, "http://" + babbling} {
			cfg := s.config(address)
			cfg.Network = far(t)
			cfg.Proxy = provider.Proxy{Address: proxyAddress, Username: "user", Password: "wrong " + proxySecret}
			want(t, s.send(t, cfg), event.Retry, provider.LabelProxy)
		}
	}
	if n := server.Received(); n != 0 {
		t.Errorf("%d messages came through", n)
	}
}

// environmentProxy fails when the environment's proxy is used although it is disabled, or when a name that only this proxy knows is
// never tried. It also fails when the addresses of a name here are not checked: the proxy is the administrator's.
func (s Conn) environmentProxy(t *testing.T) {
	server := s.Start(t, nil)
	proxy := HTTPProxy(t, server.Addr, "user", proxySecret)
	u, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("user", proxySecret)
	for _, name := range []string{"HTTPS_PROXY", "https_proxy"} {
		t.Setenv(name, u.String())
	}
	t.Setenv("NO_PROXY", "")
	t.Setenv("no_proxy", "")
	cfg := s.config(s.plain("far.test:1")) // nothing listens on port 1
	cfg.Network = provider.Network{Allow: Loopback().Allow, Resolver: DNS(t, map[string]string{"far.test": "127.0.0.1"})}
	want(t, s.send(t, cfg), event.Retry, provider.LabelConnect)
	if n := len(proxy.Requests()); n != 0 {
		t.Errorf("the environment's proxy got %d requests unasked", n)
	}
	cfg.Network.EnvironmentProxy = true
	if err := s.send(t, cfg); err != nil {
		t.Errorf("by the environment's proxy: %v", err)
	}
	network := provider.Network{
		Allow: loopbackProxyOnly, Resolver: DNS(t, map[string]string{"inner.test": "127.0.0.2"}), EnvironmentProxy: true,
	}
	cfg = s.config(s.plain("known-to-the-proxy.test:1"))
	cfg.Network = network
	if err := s.send(t, cfg); err != nil {
		t.Errorf("a name that only the proxy knows: %v", err)
	}
	cfg = s.config(s.plain("inner.test:1"))
	cfg.Network = network
	want(t, s.send(t, cfg), event.Permanent, provider.LabelDenied)
}

// customCA fails when certificates are not verified, or the CA is added to the system's instead of replacing them.
func (s Conn) customCA(t *testing.T) {
	ca := NewCA(t)
	server := s.Start(t, serverTLS(t, ca, false, "127.0.0.1"))
	cfg := s.config(s.secure(server.Addr.String()))
	want(t, s.send(t, cfg), event.Retry, provider.LabelTLS)
	cfg.TLS.CA = NewCA(t).PEM()
	want(t, s.send(t, cfg), event.Retry, provider.LabelTLS)
	cfg.TLS.CA = ca.PEM()
	if err := s.send(t, cfg); err != nil {
		t.Errorf("with the CA: %v", err)
	}
	other := s.Start(t, serverTLS(t, ca, false, "other.test"))
	cfg.Address = s.secure(other.Addr.String())
	want(t, s.send(t, cfg), event.Retry, provider.LabelTLS)
	if n := server.Received() + other.Received(); n != 1 {
		t.Errorf("%d messages came through for one send", n)
	}
}

func (s Conn) clientCertificate(t *testing.T) {
	ca := NewCA(t)
	server := s.Start(t, serverTLS(t, ca, true, "127.0.0.1"))
	cfg := s.config(s.secure(server.Addr.String()))
	cfg.TLS.CA = ca.PEM()
	if err := s.send(t, cfg); err == nil || event.AsError(err).Class != event.Retry {
		t.Errorf("without the certificate: got %v, want a retry", err)
	}
	cfg.TLS.Cert, cfg.TLS.Key = ca.Issue(t, "client")
	if err := s.send(t, cfg); err != nil || server.Received() != 1 {
		t.Errorf("with the certificate: %v, %d messages", err, server.Received())
	}
}
