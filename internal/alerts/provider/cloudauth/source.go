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
	"notifier/internal/fair"
)

const (
	// maxReply is the length of the longest answer of a token endpoint, in bytes. A token with many groups has some ten thousand.
	maxReply = 128 << 10
	// maxAge bounds the use of a token: a deleted account loses its access by then.
	maxAge = time.Hour
	// renewShare is a divisor: the token is renewed when this part of its life is left.
	renewShare = 5
	// renewTime bounds the renewal of a token that is still valid, and renewAgain is the time between two of its failures: a cloud that hangs
	// must not take the time of each send.
	renewTime  = 5 * time.Second
	renewAgain = time.Minute
)

// Source returns access tokens of one cloud for one Provider's service account.
type Source struct {
	client   *provider.Client
	cloud    string
	exchange func(ctx context.Context, c *provider.Client) (accessToken, error)

	turn  *fair.Capacity // of one: the right to read and to write token
	token accessToken
}

// accessToken is a token with the times of its renewal and its end.
type accessToken struct {
	value     string
	renew     time.Time
	expiresAt time.Time
}

// Public returns the Config with which the token of a service account may be sent: without the Provider's own TLS material, also that of
// Values. The Provider's author may not be allowed the account's tokens. With a proxy and an authority of their own the author could read
// them.
func Public(cfg provider.Config) provider.Config {
	cfg.TLS, cfg.Values = provider.TLS{}, nil
	return cfg
}

// newSource returns a Source whose client has the address and shows the word of a refusal that word returns.
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
	return &Source{client: client, cloud: cloud, turn: fair.NewCapacity(1)}, nil
}

// errNoIdentity says how an administrator enables workload identity.
var errNoIdentity = errors.New("spec.serviceAccountName needs workload identity, which this installation does not have: its administrator " +
	"switches it on with --feature-gates=ObjectLevelWorkloadIdentity=true and the permissions of config/workload-identity")

// Token returns a valid token. It renews the kept one when a fifth of its life is left.
func (s *Source) Token(ctx context.Context) (string, error) {
	turn, err := s.turn.Acquire(ctx, 1)
	if err != nil {
		return "", provider.Classify(err)
	}
	defer turn.Release()
	now := time.Now()
	if now.Before(s.token.renew) {
		return s.token.value, nil
	}
	lasts := s.token.expiresAt.Add(-renewTime)
	valid := now.Before(lasts)
	if valid {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, renewTime)
		defer cancel()
	}
	got, err := s.exchange(ctx, s.client)
	switch {
	case err == nil:
		s.token = got
	case valid:
		s.token.renew = now.Add(renewAgain)
		if lasts.Before(s.token.renew) {
			s.token.renew = lasts
		}
	default:
		return "", s.failed(err)
	}
	return s.token.value, nil
}

// LogIn has a client send a valid token with its requests.
func (s *Source) LogIn(o *provider.ClientOptions) {
	o.Issuer, o.Authorize = s.client, func(ctx context.Context) (string, error) {
		token, err := s.Token(ctx)
		return "Bearer " + token, err
	}
}

// failed returns the classified failure of a login. A refusal by the cloud is retried.
func (s *Source) failed(err error) *event.Error {
	e := provider.At("login at "+s.cloud, err)
	if e.Label == provider.LabelClient {
		e.Class = event.Retry
	}
	return e
}

// post sends a body to a token endpoint and decodes its answer.
func post(ctx context.Context, c *provider.Client, r provider.Request, answer any) error {
	raw, err := c.Fetch(ctx, r)
	if err != nil {
		return err
	}
	if json.Unmarshal(raw, answer) != nil {
		return errAnswer
	}
	return nil
}

// errAnswer means that an answer of a token endpoint has no token.
var errAnswer = event.NewError(event.Retry, provider.LabelReply, "the answer holds no token", nil)

// grant returns the token that an endpoint of OAuth 2.0 grants for a form with the values (RFC 6749, section 5.1).
func grant(ctx context.Context, c *provider.Client, endpoint *url.URL, values url.Values) (accessToken, error) {
	var answer struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int64  `json:"expires_in"` // seconds
	}
	if err := post(ctx, c, provider.Request{
		URL: endpoint, Body: []byte(values.Encode()), Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
	}, &answer); err != nil {
		return accessToken{}, err
	}
	return bearer(answer.AccessToken, seconds(answer.ExpiresIn))
}

// seconds returns a life given in seconds, at most an hour.
func seconds(n int64) time.Duration {
	return time.Duration(min(n, int64(maxAge/time.Second))) * time.Second
}

// misnamed returns the error for a faulty annotation. It does not quote the value.
func misnamed(annotation, wants string) *event.Error {
	return event.NewError(event.Retry, provider.LabelRejected, "the service account's annotation "+annotation+" "+wants, nil)
}
