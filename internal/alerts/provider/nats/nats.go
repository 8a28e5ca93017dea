package nats

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"notifier/internal/alerts/provider"
)

// The keys of the Secret that the type reads besides the common ones.
const (
	credsKey = "creds"
	nkeyKey  = "nkey"
)

// Keys are the keys of the Secret that the type reads besides the common ones.
var Keys = []string{credsKey, nkeyKey}

const (
	// maxServers bounds the servers of one address.
	maxServers = 16
	// maxSubject is the length of the longest subject in bytes. The server's line of a publish may have 4 KiB.
	maxSubject = 1024
	// headerBytes is the part of a message's size that is reserved for its headers.
	headerBytes = 256
)

// Sender publishes to one subject.
type Sender struct {
	link      *link
	subject   string
	jetStream bool
}

// New returns a Sender.
func New(cfg provider.Config) (*Sender, error) {
	servers, secure, addressErr := parse(cfg)
	login, loginErr := login(cfg)
	dialer, dialErr := provider.NewDialer(cfg)
	if err := errors.Join(addressErr, subjectFault(cfg.Channel), loginErr, dialErr); err != nil {
		return nil, err
	}
	secure = secure || len(cfg.TLS.CA)+len(cfg.TLS.Cert) > 0
	options := []nats.Option{
		nats.Name("notifier"), nats.NoReconnect(), nats.SkipHostLookup(), nats.IgnoreDiscoveredServers(),
		func(o *nats.Options) error {
			o.Secure = secure // the library then checks that the server has TLS; way encrypts
			return nil
		},
	}
	return &Sender{
		link:    newLink(dialer, servers, secure, append(options, login...)),
		subject: cfg.Channel, jetStream: cfg.JetStream,
	}, nil
}

// parse returns the servers' URLs and whether one of them needs TLS.
func parse(cfg provider.Config) (servers []string, secure bool, err error) {
	if strings.TrimSpace(cfg.Address) == "" {
		return nil, false, provider.ErrNoAddress
	}
	loggedIn := cfg.Values[credsKey]+cfg.Values[nkeyKey]+cfg.Password+cfg.Token != ""
	for address := range strings.SplitSeq(cfg.Address, ",") {
		if address = strings.TrimSpace(address); !strings.Contains(address, "://") {
			address = "nats://" + address
		}
		u, err := cfg.Network.ParseAddress(address, "nats", "tls")
		if err != nil {
			return nil, false, err
		}
		if u.Port() == "" {
			u.Host = net.JoinHostPort(u.Hostname(), "4222")
		}
		if loggedIn {
			u.User = nil // the library would prefer it
		}
		secure = secure || u.Scheme == "tls"
		servers = append(servers, (&url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host}).String())
	}
	if len(servers) > maxServers {
		return nil, false, errors.New("address has more than 16 servers")
	}
	return servers, secure, nil
}

// subjectFault returns an error for a subject that cannot be published to.
func subjectFault(subject string) error {
	if subject == "" {
		return errors.New("spec.channel is not set: it is the subject to publish to")
	}
	if len(subject) > maxSubject {
		return errors.New("spec.channel is too long for a subject")
	}
	for token := range strings.SplitSeq(subject, ".") {
		if token == "" || token == "*" || token == ">" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return errors.New("spec.channel is no subject to publish to: tokens separated by dots, without spaces and wildcards")
		}
	}
	return nil
}

// login returns the option that logs in with the Secret's credentials, none if it has none.
func login(cfg provider.Config) ([]nats.Option, error) {
	switch creds, seed := cfg.Values[credsKey], strings.TrimSpace(cfg.Values[nkeyKey]); {
	case creds != "":
		_, jwtErr := nkeys.ParseDecoratedJWT([]byte(creds))
		_, keyErr := nkeys.ParseDecoratedUserNKey([]byte(creds))
		if jwtErr != nil || keyErr != nil {
			return nil, errors.New("the Secret's key creds is not the content of a credentials file of a user")
		}
		return []nats.Option{nats.UserCredentialBytes([]byte(creds))}, nil
	case seed != "":
		pair, err := nkeys.FromSeed([]byte(seed))
		if err != nil {
			return nil, errors.New("the Secret's key nkey is not a seed of a user")
		}
		public, err := pair.PublicKey()
		if err != nil || !nkeys.IsValidPublicUserKey(public) {
			return nil, errors.New("the Secret's key nkey is not a seed of a user")
		}
		return []nats.Option{nats.Nkey(public, pair.Sign)}, nil
	case cfg.Password != "":
		if cfg.Username == "" {
			return nil, errors.New("the Secret has the key password without the key username")
		}
		return []nats.Option{nats.UserInfo(cfg.Username, cfg.Password)}, provider.CheckPair(cfg.Username, cfg.Password)
	case cfg.Token != "":
		return []nats.Option{nats.Token(cfg.Token)}, provider.CheckLine("the Secret's key token", cfg.Token)
	}
	return nil, nil
}

// Close closes the connection as soon as no send is under way. The Sender stays usable.
func (s *Sender) Close() error {
	s.link.close()
	return nil
}

// Send publishes the notification's event.
func (s *Sender) Send(ctx context.Context, n provider.Notification) error {
	ctx, cancel := context.WithTimeout(ctx, s.link.dialer.Timeout())
	defer cancel()
	s.link.begin()
	defer s.link.end()
	c, err := s.link.conn(ctx)
	if err != nil {
		return classify(ctx, err)
	}
	c.metered.Reset()
	defer context.AfterFunc(ctx, func() { _ = c.metered.Close() })() // a write to a server that does not read has no end of its own
	most := int(cmp.Or(max(c.MaxPayload(), 0), 1<<20)) - headerBytes
	body, err := provider.EventJSON(n.Event, most)
	if err != nil {
		return err
	}
	if err := provider.CheckOwned(ctx); err != nil {
		return provider.Classify(err)
	}
	m := nats.NewMsg(s.subject)
	m.Data = body
	if c.HeadersSupported() {
		m.Header.Set(nats.MsgIdHdr, n.DeliveryID)
	}
	if err := s.publish(ctx, c, m); err != nil {
		// Another connection may work after any error: a connection that lost its peer answers nothing for minutes.
		s.link.drop(c)
		return classify(ctx, err)
	}
	return nil
}

// publish sends a message to the server and returns when its answer is known.
func (s *Sender) publish(ctx context.Context, c *conn, m *nats.Msg) error {
	if s.jetStream {
		js, err := jetstream.New(c.Conn)
		if err != nil {
			return err
		}
		ctx, cancel := c.until(ctx)
		defer cancel()
		if _, err = js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0)); err == nil {
			return nil
		}
		return errors.Join(err, c.LastError(), c.metered.Fault())
	}
	if err := c.PublishMsg(m); err != nil {
		return errors.Join(err, c.metered.Fault())
	}
	// The server reads in order. When it answers the ping of the flush it has accepted the message or sent a refusal.
	if err := c.FlushWithContext(ctx); err != nil {
		return errors.Join(err, c.LastError(), c.metered.Fault())
	}
	if err := c.LastError(); errors.Is(err, nats.ErrPermissionViolation) {
		return err
	}
	return nil
}

// idleTime is the time for which a connection is kept without a send.
const idleTime = 90 * time.Second
