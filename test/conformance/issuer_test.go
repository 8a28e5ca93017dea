package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
	"notifier/test/sender"
)

const (
	unknownKey  = "token signed with a key that its issuer does not list"
	forgedToken = "token signature mismatch"
	expired     = "token expired"
	notForUs    = "token is not for this audience, or not valid yet"
)

// providers returns the part of a spec that accepts an issuer's tokens for one team.
func providers(issuer string) string {
	return `"oidcProviders":[{"issuerURL":"` + issuer + `","audience":"flux",
 "variables":[{"name":"owner","expression":"claims.repository.split('/')[0]"}],
 "validations":[{"expression":"vars.owner == 'team'","message":"not our team"},{"expression":"claims.ref == 'main'","message":"not the main branch"}]}],`
}

var ours = sender.Claims{"repository": "team/app", "ref": "main"}

// with returns claims with the pairs added or replaced.
func with(claims sender.Claims, pairs ...any) sender.Claims {
	changed := maps.Clone(claims)
	for i := 0; i+1 < len(pairs); i += 2 {
		changed[pairs[i].(string)] = pairs[i+1]
	}
	return changed
}

func genericOIDC(s *fixture) kind {
	issuer, other := s.issuer(), s.issuer()
	token := func(claims sender.Claims) string { return issuer.Token("flux", claims) }
	send := func(claims sender.Claims) sender.Webhook { return sender.OIDC(token(claims), "{}") }
	past := time.Now().Add(-time.Hour).Unix()
	return kind{
		spec:     providers(issuer.URL),
		accepted: map[string]sender.Webhook{"a token": send(ours), "for several": send(with(ours, "aud", []string{"other", "flux"}))},
		refused: map[string]refusal{
			"no token":                   {sender.Generic("{}"), noToken},
			"what is no token":           {sender.OIDC("token", "{}"), "token malformed"},
			"signed with another key":    {sender.OIDC(issuer.Forge("key-1", "flux", ours), "{}"), forgedToken},
			"signed with an unknown key": {sender.OIDC(issuer.Forge("key-0", "flux", ours), "{}"), unknownKey},
			"of another issuer":          {sender.OIDC(other.Token("flux", ours), "{}"), "token of another issuer"},
			"of another issuer, as ours": {sender.OIDC(other.Token("flux", with(ours, "iss", issuer.URL)), "{}"), forgedToken},
			"for somebody else":          {sender.OIDC(issuer.Token("other", ours), "{}"), notForUs},
			"expired":                    {send(with(ours, "exp", past)), expired},
			"not valid yet":              {send(with(ours, "nbf", time.Now().Add(time.Hour).Unix())), notForUs},
			"of another team":            {send(with(ours, "repository", "their/app")), "not our team"},
			"of another team and branch": {send(with(ours, "repository", "their/app", "ref", "dev")), "not our team; not the main branch"},
			"without the claim":          {send(with(ours, "repository", nil)), "a variable of the receiver cannot be evaluated for this token"},
		},
		sized:  func(body string) sender.Webhook { return sender.OIDC(token(ours), body) },
		broken: `"oidcProviders":[{"issuerURL":"` + issuer.URL + `","validations":[{"expression":"claims.","message":"x"}]}],`,
	}
}

const googleAccount = "flux@team.iam.gserviceaccount.com"

var google = sender.Claims{"email": googleAccount, "email_verified": true}

func gcr(s *fixture) kind {
	const audience = "https://hooks.example.org"
	send := func(claims sender.Claims) sender.Webhook {
		return sender.GCR(s.google.Token(audience, claims), sender.GCRInsert)
	}
	other := s.issuer()
	return kind{
		secret:   map[string]string{"token": token, "email": googleAccount, "audience": audience},
		accepted: map[string]sender.Webhook{"a push": send(google)},
		repeats:  true,
		refused: map[string]refusal{
			"no token":                    {send(google).With("Authorization", ""), noToken},
			"signed with another key":     {sender.GCR(s.google.Forge("key-1", audience, google), sender.GCRInsert), forgedToken},
			"of another issuer":           {sender.GCR(other.Token(audience, google), sender.GCRInsert), forgedToken},
			"named by another issuer":     {send(with(google, "iss", "https://accounts.example.org")), "token of another issuer"},
			"for somebody else":           {sender.GCR(s.google.Token("https://other.example.org", google), sender.GCRInsert), notForUs},
			"expired":                     {send(with(google, "exp", time.Now().Add(-time.Hour).Unix())), expired},
			"of another account":          {send(with(google, "email", "someone@gmail.com")), "token is of another account"},
			"of no account":               {send(with(google, "email", nil)), "token is of another account"},
			"an email not verified":       {send(with(google, "email_verified", false)), "token's email is not verified"},
			"no JSON":                     {send(google).WithBody("push"), noJSON},
			"no message":                  {send(google).WithBody("{}"), badField},
			"a message of something else": {sender.GCR(s.google.Token(audience, google), `{"event":"x"}`), "message data is not a registry's notification in base64"},
		},
		sized: func(body string) sender.Webhook { return send(google).WithBody(body) },
	}
}

// Fails when keys are fetched only once, when a key that the issuer no longer lists is accepted, and when each unknown
// key causes a fetch: strangers would make the process flood the issuer.
func TestKeysRotateWhileServingAndStrangersCauseNoFetches(t *testing.T) {
	s := setUp(t)
	issuer := s.issuer()
	s.Must(s.Tenant.Apply(s.Ctx, objectManifests+markerManifests+receiver("app", "generic-oidc", providers(issuer.URL)+resources)))
	path := s.ready("app", "")
	s.ready("marker", "marker-token")
	old := sender.OIDC(issuer.Token("flux", ours), "{}")
	began := time.Now()
	s.send("the first key", path, old, http.StatusOK, accepted)

	issuer.Rotate()
	issuer.Drop("key-1")
	fresh := sender.OIDC(issuer.Token("flux", ours), "{}")
	s.send("a new key within the pause", path, fresh, http.StatusBadRequest, reason(unknownKey))
	var flood sync.WaitGroup
	for i := range 20 {
		flood.Go(func() {
			for j := range 10 {
				forged := sender.OIDC(issuer.Forge(fmt.Sprintf("unknown-%d-%d", i, j), "flux", ours), "{}")
				if resp, err := s.Do(s.Ctx, http.MethodPost, s.HooksURL+path, forged.Header, []byte(forged.Body)); err != nil || resp.Status < 400 {
					t.Errorf("a forged token: %d %v", resp.Status, err)
				}
			}
		})
	}
	flood.Wait()
	rotated := s.until(path, fresh)
	s.refused(path, old, reason(unknownKey))
	s.await(rotated, named...)
	most := 2 + int(time.Since(began)/(10*time.Second))
	discoveries, fetches := issuer.Requests()
	t.Logf("201 tokens of unknown keys: the issuer was asked %d times for its document and %d times for its keys; the new key served after %s",
		discoveries, fetches, time.Since(began).Round(time.Millisecond))
	if discoveries > most || fetches > most {
		t.Errorf("the issuer was asked %d and %d times, more than %d", discoveries, fetches, most)
	}
}

// refused sends a webhook repeatedly, since failed ones have a budget, until it is refused for its own fault.
func (s *fixture) refused(path string, w sender.Webhook, want string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Ctx, 30*time.Second)
	defer cancel()
	s.Must(env.Eventually(ctx, func(ctx context.Context) error {
		resp, err := s.Do(ctx, http.MethodPost, s.HooksURL+path, w.Header, []byte(w.Body))
		switch {
		case err != nil:
			return err
		case resp.Status == http.StatusTooManyRequests:
			return errors.New("over budget")
		}
		s.told("a key that is listed no more", resp, http.StatusBadRequest, want)
		return nil
	}))
}

// until sends a webhook repeatedly until it is accepted, and returns when that one was sent.
func (s *fixture) until(path string, w sender.Webhook) (sent time.Time) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Ctx, 30*time.Second)
	defer cancel()
	s.Must(env.Eventually(ctx, func(ctx context.Context) error {
		sent = time.Now()
		resp, err := s.Do(ctx, http.MethodPost, s.HooksURL+path, w.Header, []byte(w.Body))
		if err == nil && resp.Status != http.StatusOK {
			err = fmt.Errorf("got %d %s", resp.Status, resp.Body)
		}
		return err
	}))
	return sent
}

// Fails when an issuer that does not answer is taken for the sender's fault, or delays a sender that needs no issuer.
func TestAnIssuerThatIsDownIsNotTheSendersFault(t *testing.T) {
	s := setUp(t)
	issuer := s.issuer()
	s.Must(s.Tenant.Apply(s.Ctx, objectManifests+receiver("app", "generic-oidc", providers(issuer.URL)+resources)))
	path := s.ready("app", "")
	webhook := sender.OIDC(issuer.Token("flux", ours), "{}")
	s.Must(issuer.Close())
	s.send("the issuer is down", path, webhook, http.StatusServiceUnavailable, reason("the issuer's keys are not available"))
	if asked := s.asked(); len(asked) != 0 {
		t.Errorf("asked for %v", asked)
	}
}

// Fails when the expressions of a provider are not compiled before the Receiver is ready, or when the error does not
// give its place.
func TestAnExpressionThatDoesNotCompileIsACondition(t *testing.T) {
	s := setUp(t)
	for name, fields := range map[string]string{
		"validation": `"oidcProviders":[{"issuerURL":"http://127.0.0.1:1","validations":[{"expression":"claims.","message":"x"}]}],`,
		"filter":     `"secretRef":{"name":"marker"},"resourceFilter":"req.",`,
	} {
		kind := map[string]string{"validation": "generic-oidc", "filter": "github"}[name]
		s.Must(s.Tenant.Apply(s.Ctx, markerManifests+receiver(name, kind, fields+resources)))
		s.Condition(s.Tenant, "Receiver", name, "Ready", metav1.ConditionFalse, "InvalidCELExpression")
	}
	s.send("its path", env.HookPath("", "validation", s.Tenant.Namespace), sender.Generic("{}"), http.StatusServiceUnavailable, "")
}
