package cloudauth

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

const (
	// maxReply is the longest answer of a token endpoint that is read, in bytes; a token of many groups has some ten thousand.
	maxReply = 128 << 10
	// maxAge bounds how long a token is used: an account that was taken away loses its access by then.
	maxAge = time.Hour
	// renewShare is the part of a token's life, as a divisor, that is left when it is renewed.
	renewShare = 5
)

// Source gives access tokens of one cloud for one Provider's service account.
type Source struct {
	client   *provider.Client
	cloud    string
	exchange func(ctx context.Context, c *provider.Client) (accessToken, error)

	turn  chan struct{} // holds the right to read and to write token
	token accessToken
}

// accessToken is a token, and when it is to be renewed and ends.
type accessToken struct {
	value     string
	renew     time.Time
	expiresAt time.Time
}

// lasting returns a token that was got now and lives for so long.
func lasting(value string, life time.Duration) accessToken {
	life = min(life, maxAge)
	now := time.Now()
	return accessToken{value: value, renew: now.Add(life - life/renewShare), expiresAt: now.Add(life)}
}

// Public returns the Config with which the token of a service account may be sent: without the Provider's own TLS. A Provider's author need
// not be allowed the account's tokens, and would read them by a proxy and an authority of the author's own.
func Public(cfg provider.Config) provider.Config {
	cfg.TLS = provider.TLS{}
	return cfg
}

// newSource builds a Source whose client has the address and gives of a refusal what word knows.
func newSource(cfg provider.Config, cloud, address string, word func([]byte) string) (*Source, error) {
	switch {
	case cfg.ServiceAccount == "":
		return nil, errors.New("spec.serviceAccountName is not set: name the service account that logs in")
	case cfg.Identity == nil || cfg.Annotations == nil:
		return nil, errNoIdentity
	}
	cfg = Public(cfg)
	cfg.Address, cfg.Headers = address, nil
	client, err := provider.NewClient(cfg, provider.ClientOptions{MaxReply: maxReply, Word: word})
	if err != nil {
		return nil, err
	}
	s := &Source{client: client, cloud: cloud, turn: make(chan struct{}, 1)}
	return s, nil
}

// errNoIdentity says how an administrator switches workload identity on.
var errNoIdentity = errors.New("spec.serviceAccountName needs workload identity, which this installation does not have: its administrator " +
	"switches it on with --feature-gates=ObjectLevelWorkloadIdentity=true and the permissions of config/workload-identity")

// Token returns a token that is good for a while.
func (s *Source) Token(ctx context.Context) (string, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return "", provider.Classify(ctx.Err())
	}
	defer func() { <-s.turn }()
	now := time.Now()
	if now.Before(s.token.renew) {
		return s.token.value, nil
	}
	got, err := s.exchange(ctx, s.client)
	switch {
	case err == nil:
		s.token = got
	case now.Before(s.token.expiresAt):
		// It is tried again with the next message.
	default:
		return "", s.failed(err)
	}
	return s.token.value, nil
}

// Close drops idle connections.
func (s *Source) Close() error { return s.client.Close() }

// failed returns the classified failure of a login, which a refusal by the cloud makes one to retry.
func (s *Source) failed(err error) *event.Error {
	e := *provider.Classify(err)
	if e.Label == provider.LabelClient {
		e.Class = event.Retry
	}
	e.Reason = "login at " + s.cloud + ": " + e.Reason
	return &e
}

// post sends a body to a token endpoint and decodes its answer.
func post(ctx context.Context, c *provider.Client, r provider.Request, answer any) error {
	raw, err := c.Send(ctx, r)
	if err != nil {
		return err
	}
	if json.Unmarshal(raw, answer) != nil {
		return errAnswer
	}
	return nil
}

// errAnswer says that an answer of a token endpoint holds no token.
var errAnswer = event.NewError(event.Retry, provider.LabelReply, "the answer holds no token", nil)

// form returns a request with the values of a form.
func form(u *url.URL, values url.Values) provider.Request {
	return provider.Request{
		URL: u, Body: []byte(values.Encode()), Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
	}
}

// misnamed is the refusal of an annotation. Its value is not quoted.
func misnamed(annotation, wants string) *event.Error {
	return event.NewError(event.Retry, provider.LabelRejected, "the service account's annotation "+annotation+" "+wants, nil)
}
