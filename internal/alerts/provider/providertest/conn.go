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

	target
}

// Server is a real server.
type Server struct {
	Addr net.Addr
	// Host, if not nil, returns the host that the last message was for.
	Host func() string
	// Received returns the number of messages received so far.
	Received func() int
}

// RunConn tests the type against the contract of package provider, apart from its rules about HTTP.
func RunConn(t *testing.T, s Conn) {
	s.target = target{
		create: s.New, config: s.config, proxyVariable: "HTTPS_PROXY", cases: new(atomic.Int64),
		plain:  func(host string) string { return s.Plain + "://" + withPort(host) + s.PlainQuery },
		secure: func(host string) string { return s.Secure + "://" + withPort(host) },
		start: func(t *testing.T, ca *CA, clients bool, hosts ...string) Server {
			if ca == nil {
				return s.Start(t, nil)
			}
			return s.Start(t, serverTLS(t, ca, clients, hosts...))
		},
	}
	t.Run("a message arrives", s.arrives)
	t.Run("a message that another replica owns is not written", s.fence)
	t.Run("a destination that hangs is given up in time", s.hang)
	t.Run("a send ends with its caller", s.canceled)
	t.Run("a broken connection is worth another try", s.broken)
	t.Run("a server that babbles is a failed send and nothing of it is shown", s.babble)
	t.Run("a proxy that babbles is worth another try", s.babblingProxy)
	t.Run("connections end with the Sender", s.connections)
	s.run(t, map[string]func(*provider.Config){"no channel": func(c *provider.Config) { c.Channel = "" }})
}

// withPort returns a host with a port that no test listens on, unless it has one.
func withPort(host string) string {
	if _, _, err := net.SplitHostPort(host); err != nil {
		return host + ":1"
	}
	return host
}

func (s Conn) config(address string) provider.Config {
	cfg := s.Config
	cfg.Address = address
	cfg.Network = Loopback()
	cfg.Timeout = 30 * time.Second
	return cfg
}

// serverTLS returns the config of a server with a certificate of ca for the hosts. With clients it requires client certificates of ca.
func serverTLS(tb testing.TB, ca *CA, clients bool, hosts ...string) *tls.Config {
	tb.Helper()
	pair, err := tls.X509KeyPair(ca.Issue(tb, hosts...))
	if err != nil {
		tb.Fatal(err)
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
	rude := listen(t, func(net.Conn) {})
	for _, address := range []string{Refusing, rude} {
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

// babblingProxy fails when the length of a proxy's text is unbounded.
func (s Conn) babblingProxy(t *testing.T) {
	babbling := listen(t, func(c net.Conn) {
		for block := strings.Repeat(replySecret, 1000); ; {
			if _, err := io.WriteString(c, block); err != nil {
				return
			}
		}
	})
	for _, address := range []string{s.plain("far.test"), s.secure("far.test")} {
		want(t, s.send(t, s.by("http://"+babbling, address, far(t))), event.Retry, provider.LabelProxy)
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
	if err := sender.Close(); err != nil {
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
