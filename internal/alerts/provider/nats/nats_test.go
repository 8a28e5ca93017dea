package nats

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

// start starts a real server. change may be nil.
func start(t *testing.T, change func(*server.Options)) *server.Server {
	t.Helper()
	o := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true}
	if change != nil {
		change(o)
	}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server did not start")
	}
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

// listen returns the messages of a subject.
func listen(t *testing.T, s *server.Server, subject string, options ...nats.Option) <-chan *nats.Msg {
	t.Helper()
	c, err := nats.Connect("", append(options, nats.InProcessServer(s))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	messages := make(chan *nats.Msg, 100)
	if _, err := c.ChanSubscribe(subject, messages); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	return messages
}

// counted returns a function that counts the messages received so far. The server counts them itself, but after it has answered.
func counted(t *testing.T, s *server.Server) func() int {
	t.Helper()
	c, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	all, err := c.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	return func() int {
		t.Helper()
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		n, _, err := all.Pending()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
}

// newSender returns a Sender to a server, closed with the test.
func newSender(t *testing.T, cfg provider.Config) *Sender {
	t.Helper()
	cfg.Type, cfg.Network, cfg.Timeout = "nats", providertest.Loopback(), 10*time.Second
	if cfg.Channel == "" {
		cfg.Channel = "flux.events"
	}
	s := providertest.NewSender(t, New, cfg)
	return s
}

func info(t *testing.T) provider.Notification { return providertest.Notifications(t)["info"] }

// next returns the next message, which arrived before the send ended or is on its way within the process.
func next(t *testing.T, messages <-chan *nats.Msg) *nats.Msg {
	t.Helper()
	select {
	case m := <-messages:
		return m
	case <-time.After(10 * time.Second):
		t.Fatal("no message came")
		return nil
	}
}

func TestContract(t *testing.T) {
	providertest.RunConn(t, providertest.Conn{
		New: provider.Builder(New), Config: provider.Config{Type: "nats", Channel: "flux.events", Token: "token-s3cret"},
		Plain: "nats", Secure: "tls", Keeps: true,
		Start: func(t *testing.T, c *tls.Config) providertest.Server {
			s := start(t, func(o *server.Options) {
				if c != nil {
					o.TLS, o.TLSConfig, o.TLSTimeout, o.TLSVerify = true, c, 10, c.ClientAuth == tls.RequireAndVerifyClientCert
				}
			})
			return providertest.Server{Addr: s.Addr(), Received: counted(t, s)}
		},
	})
}

// Fails when the body differs from Flux's event, or the delivery's ID is missing: streams drop duplicates by it.
func TestTheEventIsPublishedAsItIs(t *testing.T) {
	server := start(t, nil)
	messages := listen(t, server, "flux.>")
	s := newSender(t, provider.Config{Address: server.ClientURL()})
	for name, n := range providertest.Notifications(t) {
		if err := s.Send(t.Context(), n); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		m := next(t, messages)
		want, err := json.Marshal(n.Event)
		if err != nil || m.Subject != "flux.events" || string(m.Data) != string(want) || m.Header.Get("Nats-Msg-Id") != n.DeliveryID || len(m.Header) != 1 {
			t.Errorf("%s: %s on %s, headers %v", name, m.Data, m.Subject, m.Header)
		}
	}
}

// Fails when an address is split in another way than by Flux's library, or when an unreachable first server fails the send.
func TestOneOfSeveralServersIsEnough(t *testing.T) {
	server := start(t, nil)
	gone := "nats://" + providertest.Refusing
	for _, address := range []string{
		server.ClientURL(), server.Addr().String(), gone + ", " + server.ClientURL(), server.ClientURL() + "," + gone,
	} {
		for range 3 { // the order is random
			s := newSender(t, provider.Config{Address: address})
			if err := s.Send(t.Context(), info(t)); err != nil {
				t.Errorf("%v", err)
			}
			_ = s.Close()
		}
	}
}

// Fails when a text beyond the server's limit fails the send, whichever characters it has.
func TestAMessageIsCutToWhatTheServerTakes(t *testing.T) {
	server := start(t, func(o *server.Options) { o.MaxPayload = 8 << 10 })
	messages := listen(t, server, ">")
	s := newSender(t, provider.Config{Address: server.ClientURL()})
	if err := s.Send(t.Context(), providertest.Notifications(t)["long"]); err != nil {
		t.Fatal(err)
	}
	if _, err := event.Decode(next(t, messages).Data); err != nil {
		t.Error(err)
	}
}

// Fails when an ended connection is not made anew, or the delivery is lost with it.
func TestASendConnectsAnew(t *testing.T) {
	first := start(t, nil)
	port := first.Addr().(*net.TCPAddr).Port
	s := newSender(t, provider.Config{Address: first.ClientURL()})
	if err := s.Send(t.Context(), info(t)); err != nil {
		t.Fatal(err)
	}
	first.Shutdown()
	first.WaitForShutdown()
	if e := event.AsError(s.Send(t.Context(), info(t))); e.Class != event.Retry || e.Label != provider.LabelConnect {
		t.Errorf("while the server is away: %v", e)
	}
	second := start(t, func(o *server.Options) { o.Port = port })
	messages := listen(t, second, "flux.events")
	if err := s.Send(t.Context(), info(t)); err != nil {
		t.Fatal(err)
	}
	next(t, messages)
}

// TestT6AConnectionIsKeptWithinTheBoundOfItsNamespaceAlone is T6. Fails when a connection without a place is kept, when a closed one keeps
// its place, or when one that its server closed does.
func TestT6AConnectionIsKeptWithinTheBoundOfItsNamespaceAlone(t *testing.T) {
	s := newSender(t, provider.Config{Address: start(t, nil).ClientURL(), Namespace: "team-nats"})
	send := func(when string, want bool) *conn {
		t.Helper()
		if err := s.Send(t.Context(), info(t)); err != nil {
			t.Fatal(err)
		}
		s.link.mu.Lock()
		defer s.link.mu.Unlock()
		if kept := s.link.current != nil; kept != want {
			t.Errorf("%s: kept %t", when, kept)
		}
		return s.link.current
	}
	var places []func()
	for {
		release, ok := s.link.dialer.Keep()
		if !ok {
			break
		}
		t.Cleanup(release)
		places = append(places, release)
	}
	send("beyond the bound", false)
	places[0]()
	if c := send("within the bound", true); c != nil {
		c.Conn.Close()
	}
	send("after its server closed the one before", true)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	release, ok := s.link.dialer.Keep()
	if !ok {
		t.Error("a closed connection keeps its place")
	}
	release()
}

// Fails when an idle connection is kept: thousands of Providers would keep thousands.
func TestAnIdleConnectionEnds(t *testing.T) {
	server := start(t, nil)
	s := newSender(t, provider.Config{Address: server.ClientURL()})
	if err := s.Send(t.Context(), info(t)); err != nil {
		t.Fatal(err)
	}
	if s.link.current == nil || s.link.idle == nil {
		t.Fatal("the connection is not kept, or not for a time")
	}
	s.link.rest()
	if s.link.current != nil {
		t.Error("the connection is kept")
	}
	s.link.begin()
	if err := s.Send(t.Context(), info(t)); err != nil {
		t.Fatal(err)
	}
	s.link.rest()
	if s.link.current == nil {
		t.Error("the connection was closed under a send")
	}
	s.link.end()
}

// deaf is a server that takes logins and then reads nothing.
func deaf(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			go func() {
				_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
				_, _ = io.WriteString(c, `INFO {"server_id":"deaf","version":"2.12.0","proto":1,"headers":true,"max_payload":67108864}`+"\r\n")
				lines := bufio.NewScanner(c)
				for lines.Scan() {
					if lines.Text() == "PING" {
						_, _ = io.WriteString(c, "PONG\r\n")
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// Fails when a send to a server that does not read, or the close of its connection, lasts longer than the send's timeout: all Providers wait
// for the close when one of them is changed.
func TestT6AServerThatDoesNotReadHoldsUpNothing(t *testing.T) {
	s := providertest.NewSender(t, New, provider.Config{
		Type: "nats", Address: "nats://" + deaf(t), Channel: "flux.events", Timeout: time.Second, Network: providertest.Loopback(),
	})
	n := info(t)
	n.Event.Message = strings.Repeat("x", 32<<20)
	began := time.Now()
	if e := event.AsError(s.Send(t.Context(), n)); e.Class != event.Retry {
		t.Errorf("got %v", e)
	}
	_ = s.Close()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the send and the close took %s", took)
	}
}

// Fails when the owner of a Provider is sent to the network or to spec.timeout, though the port is one of a server that does not speak first.
func TestAServerThatWaitsForItsClientIsNamedAsThat(t *testing.T) {
	web := providertest.NewSink(t, nil)
	for _, servers := range []string{"nats://%s", "tls://%s", "nats://%s,nats://%s"} {
		s := providertest.NewSender(t, New, provider.Config{
			Address: strings.ReplaceAll(servers, "%s", web.Listener.Addr().String()), Channel: "flux.events",
			Network: providertest.Loopback(), Timeout: 500 * time.Millisecond,
		})
		e := event.AsError(s.Send(t.Context(), info(t)))
		if e.Class != event.Retry || e.Label != provider.LabelTimeout || !strings.Contains(provider.Advice(e), "scheme and port") {
			t.Errorf("%s: class %d, label %s, %s; %q", servers, e.Class, e.Label, e, provider.Advice(e))
		}
	}
}
