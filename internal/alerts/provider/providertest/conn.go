package providertest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// Conn is a destination type under test that does not speak HTTP. Its servers are real ones.
type Conn struct {
	// New returns the type's Sender for Config.Address.
	New func(provider.Config) (provider.Sender, error)
	// Config has the settings that the type needs. The kit sets address, network and the like. Secrets in it contain "s3cret".
	Config provider.Config
	// Plain and Secure are the schemes of addresses without TLS and with it.
	Plain, Secure string
	// PlainQuery is the query of an address without TLS, with its question mark.
	PlainQuery string
	// Start starts a server, with TLS if the config is not nil. It ends with the test.
	Start func(t *testing.T, c *tls.Config) Server
	// Keeps means that one connection serves many sends.
	Keeps bool

	cases *atomic.Int64
}

// Server is a real server.
type Server struct {
	Addr net.Addr
	// Received returns the number of messages received so far.
	Received func() int
}

// RunConn tests the type against the contract of package provider, apart from its rules about HTTP.
func RunConn(t *testing.T, s Conn) {
	s.cases = new(atomic.Int64)
	t.Cleanup(func() { t.Logf("type %s: %d cases of the contract", s.Config.Type, s.cases.Load()) })
	t.Run("a message arrives", s.arrives)
	t.Run("a message that another replica owns is not written", s.fence)
	t.Run("a destination that hangs is given up in time", s.hang)
	t.Run("a send ends with its caller", s.canceled)
	t.Run("a broken connection is worth another try", s.broken)
	t.Run("a server that babbles is a failed send and nothing of it is shown", s.babble)
	t.Run("no address that is denied is reached, in any notation", s.denied)
	t.Run("proxies are used with their credentials", s.proxies)
	t.Run("a name that only the tenant's proxy resolves is reached by it", s.onlyTheProxyResolves)
	t.Run("a proxy opens no address that is denied", s.deniedBehindProxy)
	t.Run("a proxy that fails is worth another try", s.failingProxy)
	t.Run("the environment's proxy is used only if told so", s.environmentProxy)
	t.Run("a user's CA replaces the system's", s.customCA)
	t.Run("a client certificate is shown", s.clientCertificate)
	t.Run("connections end with the Sender", s.connections)
	t.Run("a bad config is refused without quoting it", s.badConfig)
}

func (s Conn) plain(hostPort string) string  { return s.Plain + "://" + hostPort + s.PlainQuery }
func (s Conn) secure(hostPort string) string { return s.Secure + "://" + hostPort }

func (s Conn) config(address string) provider.Config {
	cfg := s.Config
	cfg.Address = address
	cfg.Network = Loopback()
	cfg.Timeout = 30 * time.Second
	return cfg
}

func (s Conn) build(t *testing.T, cfg provider.Config) provider.Sender {
	t.Helper()
	return Subject{New: s.New, cases: s.cases}.build(t, cfg)
}

func (s Conn) send(t *testing.T, cfg provider.Config) error {
	t.Helper()
	err := s.build(t, cfg).Send(t.Context(), Notifications(t)["error"])
	noSecret(t, err)
	return err
}

// serverTLS returns the config of a server with a certificate of ca for the hosts. With clients it requires client certificates of ca.
func serverTLS(t *testing.T, ca *CA, clients bool, hosts ...string) *tls.Config {
	t.Helper()
	pair, err := tls.X509KeyPair(ca.Issue(t, hosts...))
	if err != nil {
		t.Fatal(err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if clients {
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		c.ClientCAs.AddCert(ca.cert)
	}
	return c
}

func (s Conn) arrives(t *testing.T) {
	server := s.Start(t, nil)
	if err := s.send(t, s.config(s.plain(server.Addr.String()))); err != nil || server.Received() != 1 {
		t.Errorf("got %v, %d messages", err, server.Received())
	}
}

// fence fails when nothing checks the delivery's owner between the connection and the message.
func (s Conn) fence(t *testing.T) {
	server := s.Start(t, nil)
	ctx := event.WithFence(t.Context(), func() bool { return false })
	err := s.build(t, s.config(s.plain(server.Addr.String()))).Send(ctx, Notifications(t)["error"])
	noSecret(t, err)
	if e := event.AsError(err); err == nil || e.Class != event.Retry || server.Received() != 0 {
		t.Errorf("got %v, %d messages", err, server.Received())
	}
}

// listen starts a listener that passes every connection to serve. If serve is nil connections are never answered.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	if serve != nil {
		wg.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				wg.Go(func() { defer c.Close(); serve(c) })
			}
		})
	}
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return l.Addr().String()
}

// hang fails when a step of the protocol has no deadline; the test then reaches its own.
func (s Conn) hang(t *testing.T) {
	silent := listen(t, nil)
	for _, address := range []string{s.plain(silent), s.secure(silent)} {
		cfg := s.config(address)
		cfg.Timeout = 50 * time.Millisecond
		want(t, s.send(t, cfg), event.Retry, provider.LabelTimeout)
	}
	cfg := s.config(s.plain("far.test:1"))
	cfg.Network, cfg.Timeout = far(t), 50*time.Millisecond
	for _, scheme := range []string{"http", "socks5"} {
		cfg.Proxy.Address = scheme + "://" + silent
		want(t, s.send(t, cfg), event.Retry, provider.LabelTimeout)
	}
}

func (s Conn) canceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	silent := listen(t, func(c net.Conn) {
		time.AfterFunc(100*time.Millisecond, cancel) // at some point in the handshake
		_, _ = io.Copy(io.Discard, c)
	})
	start := time.Now()
	err := s.build(t, s.config(s.plain(silent))).Send(ctx, Notifications(t)["error"])
	noSecret(t, err)
	want(t, err, event.Retry, provider.LabelCanceled)
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("the send took %v", took)
	}
}

func (s Conn) broken(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	rude := listen(t, func(net.Conn) {})
	for _, address := range []string{gone.Addr().String(), rude} {
		want(t, s.send(t, s.config(s.plain(address))), event.Retry, provider.LabelConnect)
	}
	want(t, s.send(t, s.config(s.secure(s.Start(t, nil).Addr.String()))), event.Retry, provider.LabelTLS)
	cfg := s.config(s.plain("nowhere.invalid:1"))
	cfg.Network.Resolver = DNS(t, nil)
	want(t, s.send(t, cfg), event.Retry, provider.LabelDNS)
}

// babble fails when the length of a server's text is unbounded, or the text is shown.
func (s Conn) babble(t *testing.T) {
	for _, word := range []string{
		replySecret, replySecret + "\r\n", "\x00\xff", "220 " + replySecret + "\r\n", "-ERR '" + replySecret + "'\r\n",
	} {
		ended := make(chan int, 1)
		cfg := s.config(s.plain(listen(t, func(c net.Conn) {
			written := 0
			for block := strings.Repeat(word, 1000); ; {
				n, err := io.WriteString(c, block)
				if written += n; err != nil {
					ended <- written
					return
				}
			}
		})))
		cfg.Timeout = time.Second
		if e := event.AsError(s.send(t, cfg)); e.Class != event.Retry || e.Label == provider.LabelOther {
			t.Errorf("%.8q: got class %d, label %s (%s)", word, e.Class, e.Label, e.Reason)
		}
		if n := <-ended; n > 32<<20 {
			t.Errorf("%.8q: %d bytes were taken", word, n)
		}
	}
}

// connections fails when a Sender keeps a connection after Close, or makes one for every message although the type keeps one.
func (s Conn) connections(t *testing.T) {
	server := s.Start(t, nil)
	var total atomic.Int64
	closed := make(chan struct{}, 10)
	relay := listen(t, func(down net.Conn) {
		total.Add(1)
		up, err := net.Dial("tcp", server.Addr.String())
		if err != nil {
			return
		}
		pipe(down, up)
		closed <- struct{}{}
	})
	sender := s.build(t, s.config(s.plain(relay)))
	for range sends {
		if err := sender.Send(t.Context(), Notifications(t)["info"]); err != nil {
			t.Fatal(err)
		}
	}
	if err := sender.(io.Closer).Close(); err != nil {
		t.Fatal(err)
	}
	opened := sends
	if s.Keeps {
		opened = 1
	}
	for range opened {
		<-closed
	}
	if n := total.Load(); n != int64(opened) {
		t.Errorf("%d sends used %d connections", sends, n)
	}
	if err := sender.Send(t.Context(), Notifications(t)["info"]); err != nil {
		t.Errorf("after Close, which leaves the Sender usable: %v", err)
	}
	<-closed // the connection closes without a further call
}

func (s Conn) badConfig(t *testing.T) {
	ca := NewCA(t)
	cert, key := ca.Issue(t, "client")
	for name, change := range map[string]func(*provider.Config){
		"no address":             func(c *provider.Config) { c.Address = " " },
		"no URL":                 func(c *provider.Config) { c.Address = s.Secure + "://\x00" + pathSecret },
		"no host":                func(c *provider.Config) { c.Address = s.Secure + ":///" + pathSecret },
		"a scheme of its own":    func(c *provider.Config) { c.Address = "file://localhost/" + pathSecret },
		"a long address":         func(c *provider.Config) { c.Address += strings.Repeat("x", 2048) },
		"a port of its own":      func(c *provider.Config) { c.Address = s.Secure + "://localhost:99999" },
		"a proxy of its own":     func(c *provider.Config) { c.Proxy.Address = "ftp://localhost/" + proxySecret },
		"a denied proxy":         func(c *provider.Config) { c.Proxy.Address = "http://169.254.169.254/" + proxySecret },
		"no CA":                  func(c *provider.Config) { c.TLS.CA = []byte(proxySecret) },
		"a certificate, no key":  func(c *provider.Config) { c.TLS.Cert = cert },
		"a key, no certificate":  func(c *provider.Config) { c.TLS.Key = key },
		"a timeout below zero":   func(c *provider.Config) { c.Timeout = -1 },
		"a denied address":       func(c *provider.Config) { c.Address = s.Secure + "://169.254.169.254" },
		"a host outside ASCII":   func(c *provider.Config) { c.Address = s.Secure + "://１２７.0.0.1" },
		"a host with an escape":  func(c *provider.Config) { c.Address = s.Secure + "://a%20b" },
		"a password in an error": func(c *provider.Config) { c.Address = s.Secure + "://user:" + pathSecret + "@[::1" },
		"no channel":             func(c *provider.Config) { c.Channel = "" },
	} {
		cfg := s.config(s.secure("localhost:1"))
		change(&cfg)
		s.cases.Add(1)
		sender, err := s.New(cfg)
		if err == nil {
			t.Errorf("%s: New returned no error", name)
		} else if sender != nil {
			t.Errorf("%s: New returned a Sender beside the error", name)
		}
		noSecret(t, err)
	}
}
