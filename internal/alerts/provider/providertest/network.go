package providertest

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
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
		"2852039166", "0xa9fea9fe", "[fd00:ec2::254]", "[fd20:ce::254]", "[fd00:c1::a9fe:a9fe]", "100.100.100.200", "168.63.129.16", "192.0.0.192",
		"[fe80::1]", "[fe80::1%25lo]", "[::1%25lo]", "224.0.0.1", "239.255.255.255", "255.255.255.255", "[ff02::1]", "１２７.0.0.1",
		"127。0。0。1", "%31%32%37.0.0.1",
	}
	for name := range deniedNames {
		hosts = append(hosts, name)
	}
	return hosts
}

// target is a destination type under test with its servers, for the rules that are the same over every protocol.
type target struct {
	create func(provider.Config) (provider.Sender, error)
	config func(address string) provider.Config
	// plain and secure return the address of a host without TLS and with it. A host without a port gets one if the type needs it.
	plain, secure func(host string) string
	// start starts a server. With an authority it speaks TLS, with a certificate for the hosts, and with clients it requires one of theirs.
	start func(t *testing.T, ca *CA, clients bool, hosts ...string) Server
	// proxyVariable is the variable of the environment that names the type's proxy.
	proxyVariable string
	cases         *atomic.Int64
}

// run tests the rules about networks, TLS and configurations. bad are changes that the type's New refuses beside those that all refuse.
func (s target) run(t *testing.T, bad map[string]func(*provider.Config)) {
	t.Cleanup(func() { t.Logf("%d cases of the contract", s.cases.Load()) })
	t.Run("no address that is denied is reached, in any notation", s.denied)
	t.Run("proxies are used with their credentials", s.proxies)
	t.Run("a name that only the tenant's proxy resolves is reached by it", s.onlyTheProxyResolves)
	t.Run("a proxy opens no address that is denied", s.deniedBehindProxy)
	t.Run("a proxy that fails is worth another try", s.failingProxy)
	t.Run("a proxy that refuses the destination is told from one that fails", s.refusingProxy)
	t.Run("the environment's proxy is used only if told so", s.environmentProxy)
	t.Run("a user's CA replaces the system's", s.customCA)
	t.Run("a client certificate is shown", s.clientCertificate)
	t.Run("a bad config is refused without quoting it", func(t *testing.T) { s.badConfig(t, bad) })
}

// build returns a Sender that is closed at the end of the test.
func (s target) build(t *testing.T, cfg provider.Config) provider.Sender {
	t.Helper()
	s.cases.Add(1)
	sender, err := s.create(cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() { _ = sender.Close() })
	return sender
}

func (s target) send(t *testing.T, cfg provider.Config) error {
	t.Helper()
	err := s.build(t, cfg).Send(t.Context(), Notifications(t)["error"])
	noSecret(t, err)
	return err
}

// by returns the Config of an address behind a proxy, with the credentials of the kit's proxies.
func (s target) by(proxy, address string, network provider.Network) provider.Config {
	cfg := s.config(address)
	cfg.Network, cfg.Proxy = network, provider.Proxy{Address: proxy, Username: "user", Password: proxySecret}
	return cfg
}

// startPlain starts a server without TLS, and proxies to it.
func (s target) startPlain(t *testing.T) (server Server, proxy *Sink, socks string) {
	server = s.start(t, nil, false)
	return server, HTTPProxy(t, server.Addr, "user", proxySecret), "socks5://" + socksProxy(t, server.Addr)
}

// denied fails when the dialler's control is removed (names), or the check of literals in New (numbers).
func (s target) denied(t *testing.T) {
	server := s.start(t, nil, false)
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
		sender, err := s.create(cfg)
		if err != nil {
			noSecret(t, err)
			continue
		}
		err = sender.Send(t.Context(), Notifications(t)["info"])
		noSecret(t, err)
		if e := event.AsError(err); err == nil || e.Label != provider.LabelDenied || e.Class != event.Permanent {
			t.Errorf("%s: got %v, want it denied for good", host, err)
		}
		_ = sender.Close()
	}
	if n := server.Received(); n != 0 {
		t.Errorf("%d messages came through", n)
	}
}

// far returns a network in which far.test, which no test could reach, has an allowed address.
func far(t *testing.T) provider.Network {
	n := Loopback()
	n.Resolver = DNS(t, map[string]string{"far.test": "192.0.2.1"})
	return n
}

func (s target) proxies(t *testing.T) {
	ca := NewCA(t)
	for address, authority := range map[string]*CA{s.plain("far.test"): nil, s.secure("far.test"): ca} {
		server := s.start(t, authority, false, "far.test")
		http, socks := HTTPProxy(t, server.Addr, "user", proxySecret), socksProxy(t, server.Addr)
		withUser := strings.Replace(http.URL, "http://", "http://user:"+proxySecret+"@", 1)
		for _, proxy := range []provider.Proxy{
			{Address: http.URL, Username: "user", Password: proxySecret},
			{Address: withUser},
			{Address: "socks5://" + socks, Username: "user", Password: proxySecret},
		} {
			cfg := s.config(address)
			cfg.Network, cfg.Proxy = far(t), proxy
			if authority != nil {
				cfg.TLS.CA = ca.PEM()
			}
			if err := s.send(t, cfg); err != nil {
				t.Errorf("%s by %.6s: %v (%v)", address, proxy.Address, err, errors.Unwrap(err))
			}
			if server.Host != nil && server.Host() != "far.test" {
				t.Errorf("%s by %.6s: the destination saw host %q", address, proxy.Address, server.Host())
			}
		}
		if n := server.Received(); n != 3 {
			t.Errorf("%s: %d messages of 3 sends", address, n)
		}
	}
}

// onlyTheProxyResolves fails when a destination's name is looked up here although a tenant's proxy resolves it.
func (s target) onlyTheProxyResolves(t *testing.T) {
	server, proxy, socks := s.startPlain(t)
	// One name is unknown here, the other has another address here.
	network := provider.Network{Allow: loopbackProxyOnly, Resolver: DNS(t, map[string]string{"inner.test": "127.0.0.2"})}
	for _, host := range []string{"known-to-the-proxy.test", "inner.test"} {
		for _, by := range []string{proxy.URL, socks} {
			if err := s.send(t, s.by(by, s.plain(host), network)); err != nil {
				t.Errorf("%s by %.6s: %v", host, by, err)
			}
		}
	}
	if n := server.Received(); n != 4 {
		t.Errorf("%d messages of 4 sends", n)
	}
}

// deniedBehindProxy fails when only the proxy's own address is checked, not the one in the URL, or when the proxy's is not checked.
func (s target) deniedBehindProxy(t *testing.T) {
	server, proxy, socks := s.startPlain(t)
	resolver := DNS(t, map[string]string{"proxy.test": "127.0.0.1", "far.test": "192.0.2.1"})
	own := provider.Network{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.9/32")}, Resolver: resolver}
	for _, host := range []string{"localhost", "localhost:8443", "LOCALHOST.", "a.localhost"} {
		for _, address := range []string{s.plain(host), s.secure(host)} {
			want(t, s.send(t, s.by("http://127.0.0.9:1", address, own)), event.Permanent, provider.LabelDenied)
		}
	}
	network := provider.Network{Allow: loopbackProxyOnly, Resolver: resolver}
	for _, host := range []string{"127.0.0.2", "169.254.169.254", "[::1]", "2130706434", "0x7f.2"} {
		for _, address := range []string{s.plain(host), s.secure(host)} {
			for _, by := range []string{proxy.URL, socks} {
				sender, err := s.create(s.by(by, address, network))
				if noSecret(t, err); err == nil {
					t.Errorf("%s behind a proxy is taken", address)
					_ = sender.Close()
				}
			}
		}
	}
	_, port, _ := net.SplitHostPort(proxy.Listener.Addr().String())
	for _, scheme := range []string{"http", "socks5"} {
		cfg := s.by(scheme+"://proxy.test:"+port, s.plain("far.test"), provider.Network{Resolver: resolver})
		want(t, s.send(t, cfg), event.Permanent, provider.LabelDenied)
	}
	if n := server.Received() + len(proxy.Requests()); n != 0 {
		t.Errorf("%d messages and requests came through", n)
	}
}

// loopbackProxyOnly allows the address that the kit's proxies listen on and no other loopback address.
var loopbackProxyOnly = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}

func (s target) failingProxy(t *testing.T) {
	server, proxy, socks := s.startPlain(t)
	for _, address := range []string{s.plain("far.test"), s.secure("far.test")} {
		for _, by := range []string{proxy.URL, socks, "http://" + Refusing} {
			cfg := s.by(by, address, far(t))
			cfg.Proxy.Password = "wrong " + proxySecret
			want(t, s.send(t, cfg), event.Retry, provider.LabelProxy)
		}
	}
	if n := server.Received(); n != 0 {
		t.Errorf("%d messages came through", n)
	}
}

// environmentProxy fails when the transport uses http.ProxyFromEnvironment, as Go's default does, or when a name that only the proxy
// knows is never tried. It also fails when the addresses of a name here are not checked: the proxy is the administrator's.
func (s target) environmentProxy(t *testing.T) {
	_, proxy, socks := s.startPlain(t)
	setProxy := func(scheme, address string) {
		_, host, _ := strings.Cut(address, "://")
		u := url.URL{Scheme: scheme, Host: host, User: url.UserPassword("user", proxySecret)}
		for _, name := range []string{s.proxyVariable, strings.ToLower(s.proxyVariable)} {
			t.Setenv(name, u.String())
		}
	}
	setProxy("http", proxy.URL)
	t.Setenv("no_proxy", "")
	t.Setenv("NO_PROXY", "")
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
	cfg = s.config(s.plain("known-to-the-proxy.test"))
	cfg.Network = provider.Network{
		Allow: loopbackProxyOnly, Resolver: DNS(t, map[string]string{"inner.test": "127.0.0.2"}), EnvironmentProxy: true,
	}
	if err := s.send(t, cfg); err != nil {
		t.Errorf("a name that only the proxy knows: %v", err)
	}
	for _, host := range []string{"inner.test", "localhost:1"} {
		denied := s.config(s.plain(host))
		denied.Network = cfg.Network
		if host == "localhost:1" { // localhost is never sent to a proxy
			denied.Network.Allow = nil
		}
		want(t, s.send(t, denied), event.Permanent, provider.LabelDenied)
	}
	for _, scheme := range []string{"socks5", "socks5h"} { // one and the same to net/http
		if setProxy(scheme, socks); s.send(t, cfg) != nil {
			t.Errorf("an environment's proxy of %s is not used", scheme)
		}
	}
}

// customCA fails when certificates are not verified, or the CA is added to the system's instead of replacing them.
func (s target) customCA(t *testing.T) {
	ca := NewCA(t)
	server := s.start(t, ca, false, "127.0.0.1")
	cfg := s.config(s.secure(server.Addr.String()))
	want(t, s.send(t, cfg), event.Retry, provider.LabelTLS)
	cfg.TLS.CA = NewCA(t).PEM()
	want(t, s.send(t, cfg), event.Retry, provider.LabelTLS)
	cfg.TLS.CA = ca.PEM()
	if err := s.send(t, cfg); err != nil {
		t.Errorf("with the CA: %v", err)
	}
	other := s.start(t, ca, false, "other.test")
	cfg.Address = s.config(s.secure(other.Addr.String())).Address
	want(t, s.send(t, cfg), event.Retry, provider.LabelTLS)
	if n := server.Received() + other.Received(); n != 1 {
		t.Errorf("%d messages came through for one send", n)
	}
}

func (s target) clientCertificate(t *testing.T) {
	ca := NewCA(t)
	server := s.start(t, ca, true, "127.0.0.1")
	cfg := s.config(s.secure(server.Addr.String()))
	cfg.TLS.CA = ca.PEM()
	// With TLS 1.3 a server refuses after the handshake, so the client sees either the server's alert or the broken connection.
	if err := s.send(t, cfg); err == nil || event.AsError(err).Class != event.Retry {
		t.Errorf("without the certificate: got %v, want a retry", err)
	}
	cfg.TLS.Cert, cfg.TLS.Key = ca.Issue(t, "client")
	if err := s.send(t, cfg); err != nil || server.Received() != 1 {
		t.Errorf("with the certificate: %v, %d messages", err, server.Received())
	}
}

func (s target) badConfig(t *testing.T, bad map[string]func(*provider.Config)) {
	ca := NewCA(t)
	cert, key := ca.Issue(t, "client")
	scheme, _, _ := strings.Cut(s.secure("localhost"), ":")
	all := map[string]func(*provider.Config){
		"no address":             func(c *provider.Config) { c.Address = " " },
		"no URL":                 func(c *provider.Config) { c.Address = scheme + "://\x00" + pathSecret },
		"no host":                func(c *provider.Config) { c.Address = scheme + ":///" + pathSecret },
		"a scheme of its own":    func(c *provider.Config) { c.Address = "file://localhost/" + pathSecret },
		"a long address":         func(c *provider.Config) { c.Address += strings.Repeat("x", 2048) },
		"a port of its own":      func(c *provider.Config) { c.Address = s.config(s.secure("localhost:99999")).Address },
		"a proxy of its own":     func(c *provider.Config) { c.Proxy.Address = "ftp://localhost/" + proxySecret },
		"a denied proxy":         func(c *provider.Config) { c.Proxy.Address = "http://169.254.169.254/" + proxySecret },
		"no CA":                  func(c *provider.Config) { c.TLS.CA = []byte(proxySecret) },
		"a certificate, no key":  func(c *provider.Config) { c.TLS.Cert = cert },
		"a key, no certificate":  func(c *provider.Config) { c.TLS.Key = key },
		"a key of someone else":  func(c *provider.Config) { c.TLS.Cert, c.TLS.Key = ca.PEM(), key },
		"a timeout below zero":   func(c *provider.Config) { c.Timeout = -1 },
		"a denied address":       func(c *provider.Config) { c.Address = s.config(s.secure("169.254.169.254")).Address },
		"a host outside ASCII":   func(c *provider.Config) { c.Address = s.config(s.secure("１２７.0.0.1")).Address },
		"a host with an escape":  func(c *provider.Config) { c.Address = s.config(s.secure("a%20b")).Address },
		"a password in an error": func(c *provider.Config) { c.Address = scheme + "://user:" + pathSecret + "@[::1" },
	}
	maps.Copy(all, bad)
	for name, change := range all {
		cfg := s.config(s.secure("localhost"))
		change(&cfg)
		s.cases.Add(1)
		sender, err := s.create(cfg)
		if err == nil {
			t.Errorf("%s: New returned no error", name)
		} else if sender != nil {
			t.Errorf("%s: New returned a Sender beside the error", name)
		}
		noSecret(t, err)
		if printed := fmt.Sprintf("%v %+v %#v", cfg, cfg, cfg); strings.Contains(printed, "s3cret") {
			t.Errorf("%s: a printed Config shows a secret: %s", name, printed)
		}
	}
}
