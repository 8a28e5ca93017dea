package email

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"notifier/internal/alerts/provider/providertest"
)

// mailbox is a real mail server that keeps the messages sent to it.
type mailbox struct {
	addr net.Addr

	mu       sync.Mutex
	messages []received
	// login is the only accepted login, empty for any. refuse is called before every command.
	login  string
	refuse func(command, argument string) error
	mechs  []string
	// scram returns the server's side of SCRAM.
	scram func() sasl.Server
}

// received is one message with its envelope.
type received struct {
	from, login string
	to          []string
	tls         bool
	data        []byte
}

func (m *mailbox) received() []received {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]received(nil), m.messages...)
}

// start starts the server. If the config is not nil it has TLS: from the beginning if implicit, else by STARTTLS.
func start(t *testing.T, c *tls.Config, implicit bool, change func(*mailbox)) *mailbox {
	t.Helper()
	m := &mailbox{mechs: []string{sasl.Plain}}
	if change != nil {
		change(m)
	}
	s := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		s := &session{box: m, conn: c}
		return s, s.ask("EHLO", c.Hostname())
	}))
	s.Domain, s.TLSConfig, s.ErrorLog = "mail.test", c, log.New(io.Discard, "", 0)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.addr = l.Addr()
	if implicit {
		s.TLSConfig, l = nil, tls.NewListener(l, c)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() { _ = s.Close(); wg.Wait() })
	return m
}

type session struct {
	box  *mailbox
	conn *smtp.Conn
	got  received
}

func (s *session) ask(command, argument string) error {
	if s.box.refuse == nil {
		return nil
	}
	return s.box.refuse(command, argument)
}

func (s *session) AuthMechanisms() []string { return s.box.mechs }

func (s *session) Auth(mech string) (sasl.Server, error) {
	check := func(_, username, password string) error {
		if s.box.login != "" && username+":"+password != s.box.login {
			return smtp.ErrAuthFailed
		}
		s.got.login = mech + " " + username + ":" + password
		return nil
	}
	if mech == "SCRAM-SHA-256" {
		return s.box.scram(), nil
	}
	if mech == "LOGIN" {
		return &loginServer{check: check}, nil
	}
	return sasl.NewPlainServer(check), nil
}

// loginServer is the server's side of AUTH LOGIN, which no RFC defines.
type loginServer struct {
	check    func(identity, username, password string) error
	username []byte
	step     int
}

func (l *loginServer) Next(response []byte) (challenge []byte, done bool, err error) {
	l.step++
	switch l.step {
	case 1:
		return []byte("Username:"), false, nil
	case 2:
		l.username = response
		return []byte("Password:"), false, nil
	default:
		return nil, true, l.check("", string(l.username), string(response))
	}
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	s.got.from = from
	return s.ask("MAIL", from)
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.got.to = append(s.got.to, to)
	return s.ask("RCPT", to)
}

func (s *session) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := s.ask("DATA", ""); err != nil {
		return err
	}
	s.got.data = data
	_, s.got.tls = s.conn.TLSConnectionState()
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	s.box.messages = append(s.box.messages, s.got)
	return nil
}

func (s *session) Reset()        { s.got = received{login: s.got.login} }
func (s *session) Logout() error { return nil }

// pair returns a server's TLS configuration with a certificate of ca.
func pair(t *testing.T, ca *providertest.CA, hosts ...string) *tls.Config {
	t.Helper()
	c, err := tls.X509KeyPair(ca.Issue(t, hosts...))
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{c}, MinVersion: tls.VersionTLS12}
}
