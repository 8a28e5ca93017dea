package email

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/google/go-cmp/cmp"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

func TestContract(t *testing.T) {
	providertest.RunConn(t, providertest.Conn{
		New: provider.Builder(New), Config: provider.Config{Type: "email", Channel: "ops@example.com", Username: "flux@example.com"},
		Plain: "smtp", Secure: "smtps", PlainQuery: "?tls=none",
		Start: func(t *testing.T, c *tls.Config) providertest.Server {
			m := start(t, c, c != nil, nil)
			return providertest.Server{Addr: m.addr, Received: func() int { return len(m.received()) }}
		},
	})
}

// newSender returns a Sender whose address has %s replaced by the server's.
func newSender(t *testing.T, m *mailbox, address string, cfg provider.Config) *Sender {
	t.Helper()
	cfg.Type, cfg.Network, cfg.Timeout = "email", providertest.Loopback(), 10*time.Second
	cfg.Address = strings.Replace(address, "%s", m.addr.String(), 1)
	if cfg.Channel == "" {
		cfg.Channel = "ops@example.com"
	}
	s := providertest.NewSender(t, New, cfg)
	return s
}

func info(t *testing.T) provider.Notification { return providertest.Notifications(t)["info"] }

// Fails when a login, TLS or the sender of a mail differs from the documentation.
func TestTheAddressSaysHowMailIsSubmitted(t *testing.T) {
	ca := providertest.NewCA(t)
	c := pair(t, ca, "127.0.0.1")
	for name, tc := range map[string]struct {
		address  string
		implicit bool
		mechs    []string
		cfg      provider.Config
		want     received
	}{
		"TLS from the beginning, and a login": {
			address: "smtps://%s", implicit: true, cfg: provider.Config{Username: "flux@example.com", Password: "s3cret"},
			want: received{from: "flux@example.com", login: "PLAIN flux@example.com:s3cret", tls: true},
		},
		"STARTTLS, and a login that is no mail address": {
			address: "smtp://%s?from=Flux%%20%%3Cflux@example.com%%3E", cfg: provider.Config{Username: "apikey", Password: "s3cret"},
			want: received{from: "flux@example.com", login: "PLAIN apikey:s3cret", tls: true},
		},
		"a server that knows LOGIN alone": {
			address: "smtp://%s", mechs: []string{"LOGIN"}, cfg: provider.Config{Username: "flux@example.com", Password: "s3cret"},
			want: received{from: "flux@example.com", login: "LOGIN flux@example.com:s3cret", tls: true},
		},
		"a login in the address": {
			address: "smtp://flux%%40example.com:s3cret@%s", want: received{from: "flux@example.com", login: "PLAIN flux@example.com:s3cret", tls: true},
		},
		"no TLS and no login": {
			address: "smtp://%s?tls=none&from=flux@example.com", want: received{from: "flux@example.com"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := start(t, c, tc.implicit, func(m *mailbox) {
				m.login = "flux@example.com:s3cret"
				if tc.cfg.Username == "apikey" {
					m.login = "apikey:s3cret"
				}
				if tc.mechs != nil {
					m.mechs = tc.mechs
				}
			})
			tc.cfg.TLS.CA, tc.cfg.Channel = ca.PEM(), "Ops <ops@example.com>, dev@example.com"
			s := newSender(t, m, strings.ReplaceAll(tc.address, "%%", "%"), tc.cfg)
			if err := s.Send(t.Context(), info(t)); err != nil {
				t.Fatal(err)
			}
			got := m.received()[0]
			got.data, tc.want.to = nil, []string{"ops@example.com", "dev@example.com"}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(received{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Fails when the mail is submitted under a name that says nothing: Google's relay refuses "localhost", and asks for the sender's domain.
func TestAServerIsToldTheDomainOfTheSender(t *testing.T) {
	m := start(t, nil, false, func(m *mailbox) {
		m.refuse = func(command, argument string) error {
			if command == "EHLO" && argument != "example.com" {
				return &smtp.SMTPError{Code: 421, EnhancedCode: smtp.EnhancedCode{4, 7, 0}, Message: "try again later"}
			}
			return nil
		}
	})
	s := newSender(t, m, "smtp://%s?tls=none", provider.Config{Username: "flux@example.com"})
	if err := s.Send(t.Context(), info(t)); err != nil {
		t.Errorf("the server that wants the sender's domain: %v", err)
	}
}

// Fails when a session that needs encryption continues in the clear: an attacker on the way can remove STARTTLS from the server's
// answer.
func TestWithoutSTARTTLSNothingIsSent(t *testing.T) {
	m := start(t, nil, false, nil)
	for _, cfg := range []provider.Config{{Username: "flux@example.com", Password: "s3cret"}, {Username: "flux@example.com"}} {
		err := newSender(t, m, "smtp://%s", cfg).Send(t.Context(), info(t))
		if e := event.AsError(err); err == nil || e.Label != provider.LabelTLS || e.Class != event.Retry {
			t.Errorf("got %v", err)
		}
	}
	ca := providertest.NewCA(t)
	other := start(t, pair(t, ca, "other.test"), false, nil)
	err := newSender(t, other, "smtp://%s", provider.Config{Username: "flux@example.com", TLS: provider.TLS{CA: ca.PEM()}}).Send(t.Context(), info(t))
	if e := event.AsError(err); err == nil || e.Label != provider.LabelTLS {
		t.Errorf("a certificate for another host: %v", err)
	}
	if n := len(m.received()) + len(other.received()); n != 0 {
		t.Errorf("%d messages came", n)
	}
}

// Fails when the owner of a Provider is sent to the network or to spec.timeout, though the address has smtp with the port of smtps.
func TestAServerThatWaitsForTLSIsNamedAsThat(t *testing.T) {
	ca := providertest.NewCA(t)
	m := start(t, pair(t, ca, "127.0.0.1"), true, nil)
	s := providertest.NewSender(t, New, provider.Config{
		Address: "smtp://" + m.addr.String(), Channel: "ops@example.com", Username: "flux@example.com", TLS: provider.TLS{CA: ca.PEM()},
		Network: providertest.Loopback(), Timeout: 500 * time.Millisecond,
	})
	e := event.AsError(s.Send(t.Context(), info(t)))
	if e.Class != event.Retry || e.Label != provider.LabelTimeout || !strings.Contains(provider.Advice(e), "scheme and port") {
		t.Errorf("class %d, label %s, %s; %q", e.Class, e.Label, e, provider.Advice(e))
	}
}

// Fails when a refusal is not classified by its digit, shows the server's words, or leaves only some of the recipients without the
// mail.
func TestRefusalsAreClassifiedByTheirCode(t *testing.T) {
	for name, tc := range map[string]struct {
		command, argument string
		err               *smtp.SMTPError
		class             event.Class
		reason            string
	}{
		"no such mailbox": {
			"RCPT", "dev@example.com", &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "s3cret"},
			event.Permanent, "SMTP 550 at the recipient: no such mailbox",
		},
		"greylisted": {
			"RCPT", "dev@example.com", &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 7, 1}, Message: "s3cret"},
			event.Retry, "SMTP 451 at the recipient: not permitted",
		},
		"a sender that may not": {
			"MAIL", "flux@example.com", &smtp.SMTPError{Code: 553, EnhancedCode: smtp.EnhancedCode{5, 99, 99}, Message: "s3cret"},
			event.Permanent, "SMTP 553 at the sender",
		},
		"no room": {
			"DATA", "", &smtp.SMTPError{Code: 452, EnhancedCode: smtp.EnhancedCode{4, 2, 2}, Message: "s3cret"},
			event.Retry, "SMTP 452 at the message: the mailbox is full",
		},
		"too large": {
			"DATA", "", &smtp.SMTPError{Code: 552, EnhancedCode: smtp.EnhancedCode{5, 3, 4}, Message: "s3cret"},
			event.Permanent, "SMTP 552 at the message: the message is too large",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := start(t, nil, false, func(m *mailbox) {
				m.refuse = func(command, argument string) error {
					if command == tc.command && argument == tc.argument {
						return tc.err
					}
					return nil
				}
			})
			s := newSender(t, m, "smtp://%s?tls=none", provider.Config{Username: "flux@example.com", Channel: "ops@example.com, dev@example.com"})
			e := event.AsError(s.Send(t.Context(), info(t)))
			if e.Class != tc.class || e.Label != provider.LabelRejected || e.Error() != tc.reason {
				t.Errorf("class %d, label %s, %q", e.Class, e.Label, e.Error())
			}
			if n := len(m.received()); n != 0 {
				t.Errorf("%d messages came", n)
			}
		})
	}
}

func TestAWrongLoginIsFinal(t *testing.T) {
	ca := providertest.NewCA(t)
	m := start(t, pair(t, ca, "127.0.0.1"), true, func(m *mailbox) { m.login = "flux@example.com:other" })
	cfg := provider.Config{Username: "flux@example.com", Password: "s3cret", TLS: provider.TLS{CA: ca.PEM()}}
	e := event.AsError(newSender(t, m, "smtps://%s", cfg).Send(t.Context(), info(t)))
	if e.Class != event.Permanent || e.Error() != "SMTP 535 at the login: the login is wrong" {
		t.Errorf("class %d, %q", e.Class, e.Error())
	}
	none := start(t, pair(t, ca, "127.0.0.1"), true, func(m *mailbox) { m.mechs = []string{"GSSAPI"} })
	e = event.AsError(newSender(t, none, "smtps://%s", cfg).Send(t.Context(), info(t)))
	if e.Class != event.Permanent || !strings.Contains(e.Error(), "none of the logins") {
		t.Errorf("no login that we know: class %d, %q", e.Class, e.Error())
	}
}

// Fails when a server that accepted the message, but leaves QUIT unanswered, makes a sent mail a failed one: it would be sent again.
func TestAMailThatWasTakenIsSentWhateverFollows(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = c.Write([]byte("220 a\r\n"))
		read, text := make([]byte, 4096), ""
		for {
			n, err := c.Read(read)
			if err != nil {
				return
			}
			switch text += string(read[:n]); {
			case strings.HasSuffix(text, "DATA\r\n"):
				_, _ = c.Write([]byte("354 go on\r\n"))
			case strings.HasSuffix(text, "QUIT\r\n"):
				// nothing
			case strings.HasSuffix(text, "\r\n.\r\n"), !strings.Contains(text, "DATA\r\n"):
				_, _ = c.Write([]byte("250 ok\r\n"))
			}
		}
	}()
	s := newSender(t, &mailbox{addr: l.Addr()}, "smtp://%s?tls=none", provider.Config{Username: "flux@example.com"})
	began := time.Now()
	if err := s.Send(t.Context(), info(t)); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("the goodbye took %v", took)
	}
}

// Fails when only the first mail reveals a Provider that cannot send, or when an error quotes a secret.
func TestABadConfigIsRefusedWithItsField(t *testing.T) {
	good := provider.Config{Address: "smtps://mail.example.com", Channel: "ops@example.com", Username: "flux@example.com", Password: "s3cret"}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*provider.Config)
		says   string
	}{
		"a password in the clear": {func(c *provider.Config) { c.Address = "smtp://mail.example.com?tls=none" }, "without TLS"},
		"another tls":             {func(c *provider.Config) { c.Address, c.Password = "smtp://mail.example.com?tls=opportunistic", "" }, "smtp alone"},
		"smtps without TLS":       {func(c *provider.Config) { c.Address, c.Password = "smtps://mail.example.com?tls=none", "" }, "smtp alone"},
		"another query":           {func(c *provider.Config) { c.Address += "?s3cret=1" }, "more than from and tls"},
		"from twice":              {func(c *provider.Config) { c.Address += "?from=a@b.c&from=d@e.f" }, "more than from and tls"},
		"a path":                  {func(c *provider.Config) { c.Address += "/s3cret" }, "path"},
		"no sender":               {func(c *provider.Config) { c.Username = "apikey" }, "?from="},
		"a bad sender":            {func(c *provider.Config) { c.Address += "?from=s3cret" }, "?from="},
		"no login's name":         {func(c *provider.Config) { c.Username, c.Address = "", c.Address+"?from=a@b.c" }, "key username"},
		"no recipients":           {func(c *provider.Config) { c.Channel = " " }, "spec.channel"},
		"a channel of a chat":     {func(c *provider.Config) { c.Channel = "#ops" }, "spec.channel"},
		"a command":               {func(c *provider.Config) { c.Channel = "\"a\r\nRCPT TO:<x@y>\"@example.com" }, "spec.channel"},
		"a parameter":             {func(c *provider.Config) { c.Channel = "\"a> NOTIFY=x <\"@example.com" }, "spec.channel"},
		"a wide address":          {func(c *provider.Config) { c.Channel = "ops@bücher.example" }, "spec.channel"},
		"too many":                {func(c *provider.Config) { c.Channel = strings.Repeat("a@b.example,", 51) + "a@b.example" }, "50 recipients"},
	} {
		cfg := good
		tc.change(&cfg)
		s, err := New(cfg)
		if err == nil || s != nil || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "://") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
