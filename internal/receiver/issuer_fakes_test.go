package receiver

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

// fakeIssuer is an OpenID Connect issuer: an HTTP handler, and a transport that reaches it without a network, for tests whose
// time is synctest's.
type fakeIssuer struct {
	url string

	mu   sync.Mutex
	keys map[string]crypto.Signer // by key ID, what it lists
	// answer replaces the answers, nil for those of an issuer.
	answer http.HandlerFunc
	// discoveries and fetches count the requests for the document and for the keys.
	discoveries, fetches int
}

func newFakeIssuer(tb testing.TB, url string, keyIDs ...string) *fakeIssuer {
	tb.Helper()
	i := &fakeIssuer{url: url, keys: map[string]crypto.Signer{}}
	for _, id := range keyIDs {
		i.keys[id] = newKey(tb)
	}
	return i
}

func newKey(tb testing.TB) crypto.Signer {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func (i *fakeIssuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var answer any
	switch {
	case strings.HasSuffix(r.URL.Path, "/.well-known/openid-configuration"):
		i.discoveries++
		answer = map[string]any{"issuer": i.url, "jwks_uri": i.url + "/keys"}
	case strings.HasSuffix(r.URL.Path, "/keys"):
		i.fetches++
		set := jose.JSONWebKeySet{}
		for id, key := range i.keys {
			set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.Public(), KeyID: id, Use: "sig"})
		}
		answer = set
	}
	if i.answer != nil {
		i.answer(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func (i *fakeIssuer) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	i.ServeHTTP(w, r)
	return w.Result(), nil
}

// lists replaces the keys that the issuer lists.
func (i *fakeIssuer) lists(keys map[string]crypto.Signer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = keys
}

func (i *fakeIssuer) answers(h http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = h
}

func (i *fakeIssuer) counts() (discoveries, fetches int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.discoveries, i.fetches
}

// claims are those of a token that proves itself, with changes; a nil removes one.
func (i *fakeIssuer) claims(changes Claims) Claims {
	c := Claims{
		"iss": i.url, "aud": defaultAudience, "sub": "repo:org/app", "repository": "org/app",
		"exp": time.Now().Add(time.Minute).Unix(), "iat": time.Now().Unix(),
	}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

// token is signed with one of the listed keys.
func (i *fakeIssuer) token(tb testing.TB, keyID string, changes Claims) string {
	tb.Helper()
	i.mu.Lock()
	key := i.keys[keyID]
	i.mu.Unlock()
	return signedToken(tb, jose.ES256, key, keyID, i.claims(changes))
}

func signedToken(tb testing.TB, alg jose.SignatureAlgorithm, key any, keyID string, claims Claims) string {
	tb.Helper()
	options := (&jose.SignerOptions{}).WithType("JWT")
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: keyID}}, options)
	if err != nil {
		tb.Fatal(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		tb.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		tb.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

func newIssuers(tb testing.TB, transport http.RoundTripper, google string) *Issuers {
	tb.Helper()
	s, err := NewIssuers(IssuersOptions{Client: &http.Client{Transport: transport}, Google: google})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// oidcVerifier accepts the issuer's tokens of the organisation org.
func oidcVerifier(tb testing.TB, issuers *Issuers, url string, change ...func(*OIDCProvider)) Verifier {
	tb.Helper()
	provider := OIDCProvider{
		IssuerURL: url,
		Variables: []OIDCVariable{
			{Name: "parts", Expression: `claims.repository.split("/")`},
			{Name: "owner", Expression: `vars.parts[0]`},
		},
		Validations: []OIDCValidation{
			{Expression: `vars.owner == "org"`, Message: "not our organisation"},
			{Expression: `claims.sub.startsWith("repo:") && !has(claims.forked)`, Message: "a fork"},
		},
	}
	for _, c := range change {
		c(&provider)
	}
	v, err := NewVerifier("generic-oidc", Credentials{OIDC: []OIDCProvider{provider}, Issuers: issuers})
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// silence is the answer of an issuer that is down.
func silence(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusBadGateway)
	_, _ = io.WriteString(w, "no")
}
