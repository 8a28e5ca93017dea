package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
	"notifier/internal/fair"
)

// The Secret's keys of a GitHub App, as Flux has them.
const (
	keyAppID             = "githubAppID"
	keyInstallationID    = "githubAppInstallationID"
	keyInstallationOwner = "githubAppInstallationOwner"
	keyPrivateKey        = "githubAppPrivateKey"
	keyBaseURL           = "githubAppBaseURL"
)

const (
	// renewBefore is the time before its end at which a token of an installation is replaced. A token is valid for an hour.
	renewBefore = 5 * time.Minute
	// The JWT of the App is valid from a minute ago, for clocks that differ, and for less than the ten minutes that GitHub allows.
	jwtBefore, jwtLife = time.Minute, 5 * time.Minute
	// maxAppReply is the length of the longest answer about the App, in bytes.
	maxAppReply = 64 << 10
)

// app requests tokens of an installation of a GitHub App.
type app struct {
	id, installation, owner string
	signer                  jose.Signer
	// client calls the API that issues tokens.
	client *provider.Client
	// turn is a capacity of one: the right to read and to request a token. While one send requests it the others wait for the outcome.
	turn          *fair.Capacity
	value         string
	until, issued time.Time
}

// newApp returns the app of the Secret's keys. The API that issues tokens is that of the Config's address, unless the Secret names
// another.
func newApp(cfg provider.Config) (*app, error) {
	v := cfg.Values
	a := &app{id: v[keyAppID], installation: v[keyInstallationID], owner: v[keyInstallationOwner], turn: fair.NewCapacity(1)}
	switch {
	case a.id == "" && v[keyPrivateKey] == "":
		return nil, errors.New("the Secret has no credentials; write the key token into it, or the keys of a GitHub App: " +
			"githubAppID, githubAppPrivateKey and githubAppInstallationID or githubAppInstallationOwner")
	case !positive(a.id):
		return nil, errors.New("githubAppID is not a number")
	case (a.installation == "") == (a.owner == ""):
		return nil, errors.New("one of githubAppInstallationID and githubAppInstallationOwner is needed, and not both")
	case a.installation != "" && !positive(a.installation):
		return nil, errors.New("githubAppInstallationID is not a number")
	}
	if a.owner != "" {
		if err := provider.CheckKey(keyInstallationOwner, a.owner); err != nil {
			return nil, err
		}
	}
	key, ok := provider.ParseRSAKey(v[keyPrivateKey])
	if !ok {
		return nil, errors.New("githubAppPrivateKey is not an RSA private key in PEM of at most 4,096 bits")
	}
	var err error
	a.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return nil, errors.New("githubAppPrivateKey cannot sign")
	}
	where := ""
	if v[keyBaseURL] != "" {
		cfg.Address, where = v[keyBaseURL], keyBaseURL+": "
	}
	if a.client, err = provider.NewClient(cfg, provider.ClientOptions{MaxReply: maxAppReply, Word: word, Wait: wait}); err != nil {
		return nil, fmt.Errorf("%s%w", where, err)
	}
	return a, nil
}

func positive(number string) bool {
	n, err := strconv.ParseInt(number, 10, 64)
	return err == nil && n > 0
}

// token returns a token of the installation, and a new one in place of one that was refused. fresh means that it was issued during this
// call, to this send or to another one.
func (a *app) token(ctx context.Context, refused string) (token string, fresh bool, err error) {
	began := time.Now()
	turn, err := a.turn.Acquire(ctx, 1)
	if err != nil {
		return "", false, err
	}
	defer turn.Release()
	if a.value == refused {
		a.until = time.Time{}
	}
	if time.Now().Before(a.until.Add(-renewBefore)) {
		return a.value, a.issued.After(began), nil
	}
	installation, err := a.find(ctx)
	if err != nil {
		return "", false, err
	}
	var answer struct {
		Token     string    `json:"token"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	if err := a.ask(ctx, http.MethodPost, a.client.URL("app", "installations", installation, "access_tokens"), &answer); err != nil {
		return "", false, err
	}
	if answer.Token == "" {
		return "", false, event.NewError(event.Retry, provider.LabelReply, "answer has no token of the installation", nil)
	}
	a.value, a.until, a.issued = answer.Token, answer.ExpiresAt, time.Now()
	return answer.Token, true, nil
}

// find returns the ID of the installation. Without one in the Secret it looks the owner up, first as an organization and then as a
// user.
func (a *app) find(ctx context.Context) (string, error) {
	if a.installation != "" {
		return a.installation, nil
	}
	var answer struct {
		ID int64 `json:"id"`
	}
	err := a.ask(ctx, http.MethodGet, a.client.URL("orgs", a.owner, "installation"), &answer)
	if provider.StatusOf(err) == http.StatusNotFound {
		err = a.ask(ctx, http.MethodGet, a.client.URL("users", a.owner, "installation"), &answer)
	}
	return strconv.FormatInt(answer.ID, 10), err
}

// login returns the login of the App's bot.
func (a *app) login(ctx context.Context) (string, error) {
	var answer struct {
		Slug string `json:"slug"`
	}
	if err := a.ask(ctx, http.MethodGet, a.client.URL("app"), &answer); err != nil || answer.Slug == "" {
		return "", err
	}
	return answer.Slug + "[bot]", nil
}

// ask makes a request as the App itself.
func (a *app) ask(ctx context.Context, method string, u *url.URL, out any) error {
	now := time.Now()
	signed, err := jwt.Signed(a.signer).Claims(jwt.Claims{
		Issuer: a.id, IssuedAt: jwt.NewNumericDate(now.Add(-jwtBefore)), Expiry: jwt.NewNumericDate(now.Add(jwtLife)),
	}).Serialize()
	if err != nil {
		return event.NewError(event.Permanent, provider.LabelPayload, "githubAppPrivateKey cannot sign", err)
	}
	if err := a.client.Call(ctx, func(ctx context.Context) error {
		return a.client.Exchange(ctx, provider.Request{Method: method, URL: u, Header: headers(signed)}, out, apiName)
	}); err != nil {
		return provider.At("login of the GitHub App", err)
	}
	return nil
}
