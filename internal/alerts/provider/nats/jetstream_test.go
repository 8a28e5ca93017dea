package nats

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/alloctest"
	"notifier/internal/event"
)

// stream starts a server with a stream of a subject.
func stream(t *testing.T, c jetstream.StreamConfig) (*server.Server, jetstream.Stream) {
	t.Helper()
	dir := t.TempDir()
	s := start(t, func(o *server.Options) { o.JetStream, o.StoreDir = true, dir })
	conn, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	c.Name, c.Subjects = "FLUX", []string{"flux.>"}
	made, err := js.CreateStream(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return s, made
}

func stored(t *testing.T, s jetstream.Stream) uint64 {
	t.Helper()
	i, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return i.State.Msgs
}

// Fails when the delivery's ID is not the message's: an attempt whose answer was lost is stored again.
func TestAStreamKeepsARepeatedDeliveryOnce(t *testing.T) {
	server, kept := stream(t, jetstream.StreamConfig{})
	acknowledged := newSender(t, provider.Config{Address: server.ClientURL(), JetStream: true})
	plain := newSender(t, provider.Config{Address: server.ClientURL()})
	n := info(t)
	for _, s := range []*Sender{acknowledged, acknowledged, plain} {
		if err := s.Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	if got := stored(t, kept); got != 1 {
		t.Errorf("the stream has %d messages of one delivery", got)
	}
	n.DeliveryID = "another"
	if err := acknowledged.Send(t.Context(), n); err != nil || stored(t, kept) != 2 {
		t.Errorf("another delivery: %v, %d messages", err, stored(t, kept))
	}
}

// Fails when a message that no stream takes, or that a stream refuses, counts as sent.
func TestWithoutAnAcknowledgementTheSendFails(t *testing.T) {
	full, _ := stream(t, jetstream.StreamConfig{MaxMsgs: 1, Discard: jetstream.DiscardNew})
	small, _ := stream(t, jetstream.StreamConfig{MaxMsgSize: 10})
	for name, c := range map[string]struct {
		server  *server.Server
		subject string
		sends   int
		class   event.Class
		reason  string
	}{
		"no stream":     {full, "other", 1, event.Retry, "NATS: no stream has the subject, or JetStream is away"},
		"no JetStream":  {start(t, nil), "flux.a", 1, event.Retry, "NATS: no stream has the subject, or JetStream is away"},
		"a full stream": {full, "flux.a", 2, event.Retry, "NATS: the stream refuses the message"},
		"small stream":  {small, "flux.a", 1, event.Permanent, "NATS: the message is larger than the stream takes"},
	} {
		s := newSender(t, provider.Config{Address: c.server.ClientURL(), JetStream: true, Channel: c.subject})
		var err error
		for i := range c.sends {
			n := info(t)
			n.DeliveryID += strings.Repeat("x", i)
			err = s.Send(t.Context(), n)
		}
		if e := event.AsError(err); err == nil || e.Class != c.class || e.Error() != c.reason {
			t.Errorf("%s: class %d, %v", name, e.Class, err)
		}
	}
}

// hostile starts a listener that greets like a server, answers the library's ping and then sends more.
func hostile(t *testing.T, greeting, more string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				if _, err := io.WriteString(c, greeting); err != nil {
					return
				}
				read := make([]byte, 4096)
				for {
					n, err := c.Read(read)
					if err != nil || read[0] == 0x16 { // a handshake of TLS
						return
					}
					for strings.Contains(string(read[:n]), "PUB") && more != "" && err == nil {
						_, err = io.WriteString(c, more)
					}
					if strings.Contains(string(read[:n]), "PING") {
						_, _ = io.WriteString(c, "PONG\r\n")
					}
				}
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return "nats://" + l.Addr().String()
}

const greeting = `INFO {"server_id":"x","version":"2.14.0","headers":true,"max_payload":1048576}` + "\r\n"

// Fails when servers that a cluster announces are dialled: only the address names servers.
func TestAnnouncedServersAreNotUsed(t *testing.T) {
	told := strings.Replace(greeting, "{", `{"connect_urls":["192.0.2.1:4222"],`, 1)
	s := newSender(t, provider.Config{Address: hostile(t, told, "")})
	if err := s.Send(t.Context(), info(t)); err != nil {
		t.Fatal(err)
	}
	if pool := s.link.current.Servers(); len(pool) != 1 {
		t.Errorf("the pool is %v", pool)
	}
}

// Fails when the library looks names up by itself, past the Provider's proxy and checks.
func TestTheProxyResolvesTheServersName(t *testing.T) {
	backend := start(t, nil)
	proxy := providertest.HTTPProxy(t, backend.Addr(), "u", "p")
	s := newSender(t, provider.Config{Address: "localhost", Proxy: provider.Proxy{Address: proxy.URL, Username: "u", Password: "p"}})
	if err := s.Send(t.Context(), info(t)); err != nil {
		t.Fatal(err)
	}
	if host := proxy.Last(t).Host; host != "localhost:4222" {
		t.Errorf("the proxy was asked for %q", host)
	}
}

// Fails when an endless line of a server is kept, or when its text is shown.
func TestAHostileServerCostsLittleAndIsNotQuoted(t *testing.T) {
	for name, c := range map[string]struct{ greeting, more string }{
		"an endless line":           {greeting, "INFO " + strings.Repeat("x", 1<<16)},
		"endless pongs":             {greeting, strings.Repeat("PONG\r\n", 1<<12)},
		"an error of its own":       {greeting, "-ERR 's3cret'\r\n"},
		"a refusal of the login":    {greeting + "-ERR 's3cret'\r\n", ""},
		"an absurd payload":         {strings.Replace(greeting, "1048576", "-1", 1), "-ERR 's3cret'\r\n"},
		"a payload of nothing":      {strings.Replace(greeting, "1048576", "1", 1), ""},
		"a payload beyond an int":   {strings.Replace(greeting, "1048576", "9223372036854775807", 1), "-ERR 's3cret'\r\n"},
		"no JSON":                   {"INFO {s3cret\r\n", ""},
		"TLS that it does not have": {strings.Replace(greeting, "{", `{"tls_required":true,`, 1), ""},
	} {
		s := newSender(t, provider.Config{Address: hostile(t, c.greeting, c.more)})
		began := time.Now()
		err := s.Send(t.Context(), info(t))
		if name == "endless pongs" && err == nil {
			continue // the first of them is the answer
		}
		if e := event.AsError(err); err == nil || strings.Contains(e.Error(), "s3cret") || e.Label == provider.LabelOther {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(began); took > 9*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
	}
}

// Fails, with the whole process, when the library allocates any message length that a server announces.
func TestT6AServerCannotHaveRoomMadeForAMessageThatItDoesNotSend(t *testing.T) {
	for _, op := range []string{
		"MSG x 1 9000000000000000000\r\nab", "msg\tx 1 y 99999999999999999999\nab", "HMSG x 1 12 8000000000\r\nNATS/1.0\r\n", "HMSG x 1 y 0  70000000000 \r\nab",
		"MSG x 1 2\r\nab\r\nMSG x 1 9000000000000000000\r\nab", "PING\r\nMSG x 1 2\r\nabc\nMSG x 1 9000000000000000000\r\nab", "MSG x 1 -1\r\nab",
	} {
		for _, jetStream := range []bool{false, true} {
			if n := alloctest.Bytes(func() {
				s := newSender(t, provider.Config{Address: hostile(t, greeting, op), JetStream: jetStream, Timeout: 2 * time.Second})
				err := s.Send(t.Context(), info(t))
				if e := event.AsError(err); err == nil || e.Label != provider.LabelReply {
					t.Errorf("%q: %v (%s)", op, err, e.Label)
				}
			}); n > 16<<20 {
				t.Errorf("%q: %d bytes", op, n)
			}
		}
	}
}

// Fails when the server's bytes are not checked within TLS.
func TestT6TheSameWithinTLS(t *testing.T) {
	ca := providertest.NewCA(t)
	cert, key := ca.Issue(t, "127.0.0.1")
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, strings.Replace(greeting, "{", `{"tls_required":true,`, 1))
			secured := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{pair}})
			read := make([]byte, 4096)
			for n, err := secured.Read(read); err == nil; n, err = secured.Read(read) {
				if strings.Contains(string(read[:n]), "PUB") {
					_, _ = io.WriteString(secured, "MSG x 1 9000000000000000000\r\nab")
				} else if strings.Contains(string(read[:n]), "PING") {
					_, _ = io.WriteString(secured, "PONG\r\n")
				}
			}
			_ = secured.Close()
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	s := newSender(t, provider.Config{Address: "tls://" + l.Addr().String(), TLS: provider.TLS{CA: ca.PEM()}, Timeout: 2 * time.Second})
	if e := event.AsError(s.Send(t.Context(), info(t))); e == nil || e.Label != provider.LabelReply {
		t.Errorf("got %v", e)
	}
}
