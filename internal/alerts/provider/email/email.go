package email

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/wneessen/go-mail/smtp"

	"notifier/internal/alerts/provider"
)

const (
	maxRecipients = 50
	// quitTime bounds the QUIT after a message was accepted.
	quitTime = time.Second
)

// Sender sends to one list of recipients.
type Sender struct {
	dialer   *provider.Dialer
	host     string
	hostPort string
	// implicit means that the connection has TLS from the beginning, insecure that it has none.
	implicit, insecure bool
	username, password string
	from               *mail.Address
	to                 []*mail.Address
	now                func() time.Time
}

// New returns a Sender.
func New(cfg provider.Config) (*Sender, error) {
	s := &Sender{username: cfg.Username, password: cfg.Password, now: time.Now}
	var dialErr, toErr error
	s.dialer, dialErr = provider.NewDialer(cfg)
	s.to, toErr = recipients(cfg.Channel)
	if err := errors.Join(s.parse(cfg), toErr, dialErr); err != nil {
		return nil, err
	}
	return s, nil
}

// parse reads the address of cfg into s.
func (s *Sender) parse(cfg provider.Config) error {
	u, err := cfg.Network.ParseAddress(cfg.Address, "smtps", "smtp")
	if err != nil {
		return err
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || strings.Trim(u.Path, "/") != "" {
		return errors.New("address has a path, or a query that is not valid: behind smtps or smtp it has a host, with ?from= and ?tls=none alone")
	}
	for name := range query {
		if name != "from" && name != "tls" || len(query[name]) != 1 {
			return errors.New("address has a query with more than from and tls")
		}
	}
	if password, ok := u.User.Password(); ok && s.password == "" {
		s.username, s.password = u.User.Username(), password
	}
	s.implicit, s.insecure = u.Scheme == "smtps", query.Has("tls")
	switch {
	case s.insecure && (query.Get("tls") != "none" || s.implicit):
		return errors.New("address has a query tls that is not tls=none, for smtp alone")
	case s.insecure && s.password != "":
		return errors.New("a password is not sent without TLS: leave tls=none out of the address, or the password out of the Secret")
	case s.password != "" && s.username == "":
		return errors.New("the Secret has the key password without the key username")
	}
	if err := provider.CheckPair(s.username, s.password); err != nil {
		return err
	}
	port := "587"
	if s.implicit {
		port = "465"
	}
	if u.Port() != "" {
		port = u.Port()
	}
	s.host, s.hostPort = u.Hostname(), net.JoinHostPort(u.Hostname(), port)
	return s.sender(query.Get("from"))
}

// domain returns the sender's domain.
func (s *Sender) domain() string {
	_, domain, _ := strings.Cut(s.from.Address, "@")
	return domain
}

// sender sets the address that mails are from.
func (s *Sender) sender(from string) error {
	from = cmp.Or(from, s.username)
	address, err := mail.ParseAddress(from)
	if err != nil || !plain(address) {
		return errors.New("neither ?from= of the address nor the username is a mail address that mails can be from")
	}
	s.from = address
	return nil
}

// recipients parses the channel.
func recipients(channel string) ([]*mail.Address, error) {
	if strings.TrimSpace(channel) == "" {
		return nil, errors.New("spec.channel is not set: it lists the recipients' mail addresses, separated by commas")
	}
	list, err := mail.ParseAddressList(channel)
	switch {
	case err != nil || slices.ContainsFunc(list, func(a *mail.Address) bool { return !plain(a) }):
		return nil, errors.New("spec.channel is not a list of mail addresses, separated by commas")
	case len(list) > maxRecipients:
		return nil, errors.New("spec.channel has more than 50 recipients: use the address of a mailing list")
	}
	return list, nil
}

// plain reports whether an address can be written into a command unchanged. Servers need not know more than ASCII, and such an address
// has no spaces and no brackets.
func plain(a *mail.Address) bool {
	special := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`<>"\(),:;`, r) }
	return len(a.Address) <= 254 && !strings.ContainsFunc(a.Address, special)
}

// Close does nothing: no connection outlives its send.
func (s *Sender) Close() error { return nil }

// Send submits one mail.
func (s *Sender) Send(ctx context.Context, n provider.Notification) error {
	ctx, cancel := context.WithTimeout(ctx, s.dialer.Timeout())
	defer cancel()
	message, err := s.message(n)
	if err != nil {
		return err
	}
	conn, metered, err := s.dialer.DialContext(ctx, "tcp", s.hostPort) // what a server may send in a handshake suffices for a session
	if err != nil {
		return provider.Classify(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = metered.Close() })
	defer func() { stop(); _ = metered.Close() }()
	if err := s.submit(ctx, conn, message); err != nil {
		return classify(ctx, errors.Join(metered.Fault(), err))
	}
	return nil
}

// submit runs one session.
func (s *Sender) submit(ctx context.Context, conn net.Conn, message []byte) error {
	if s.implicit {
		secured := tls.Client(conn, s.dialer.TLS(s.host))
		if err := secured.HandshakeContext(ctx); err != nil {
			return err
		}
		conn = secured
	}
	c, err := smtp.NewClient(conn, s.host)
	if err != nil {
		return at(greeting, err)
	}
	if err := s.open(c); err != nil {
		return err
	}
	if err := c.Mail("<" + s.from.Address + ">"); err != nil {
		return at("sender", err)
	}
	for _, to := range s.to {
		if err := c.Rcpt("<" + to.Address + ">"); err != nil {
			return at("recipient", err)
		}
	}
	if err := provider.CheckOwned(ctx); err != nil {
		return err
	}
	w, err := c.Data()
	if err != nil {
		return at("message", err)
	}
	if _, err := w.Write(message); err != nil {
		return err // the server drops a message without an end
	}
	if err := w.Close(); err != nil {
		return at("message", err)
	}
	_ = conn.SetDeadline(time.Now().Add(quitTime))
	_ = c.Quit() // the server has accepted the message
	return nil
}

// open starts TLS if it is needed, and logs in. The sender's domain stands for the name of this host, which says nothing outside of the
// cluster: Google's relay refuses "localhost".
func (s *Sender) open(c *smtp.Client) error {
	if err := c.Hello(s.domain()); err != nil {
		return at(greeting, err)
	}
	if !s.implicit && !s.insecure {
		if ok, _ := c.Extension("STARTTLS"); !ok {
			return errNoTLS
		}
		if err := c.StartTLS(s.dialer.TLS(s.host)); err != nil {
			return at("STARTTLS", err)
		}
	}
	if s.password == "" {
		return nil
	}
	_, offered := c.Extension("AUTH")
	mechanisms := strings.Fields(strings.ToUpper(offered))
	var auth smtp.Auth
	switch {
	case slices.Contains(mechanisms, "PLAIN"):
		auth = smtp.PlainAuth("", s.username, s.password, s.host, false)
	case slices.Contains(mechanisms, "LOGIN"):
		auth = smtp.LoginAuth(s.username, s.password, s.host, false)
	case slices.Contains(mechanisms, "SCRAM-SHA-256"):
		auth = &boundedScram{Auth: smtp.ScramSHA256Auth(s.username, s.password)}
	default:
		return errNoLogin
	}
	return at("login", c.Auth(auth))
}
