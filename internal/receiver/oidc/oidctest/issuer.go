// Package oidctest is an OpenID Connect issuer for tests.
package oidctest

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

// Audience is the audience of its tokens.
const Audience = "notification-controller"

// Issuer is an OpenID Connect issuer: an HTTP handler, and a transport that reaches it without a network, for tests whose
// time is synctest's.
type Issuer struct {
	// URL is the issuer's, and the beginning of its addresses.
	URL string

	mu   sync.Mutex
	keys map[string]crypto.Signer // by key ID, as it lists them
	// answer replaces the issuer's answers unless it is nil.
	answer http.HandlerFunc
	// discoveries and fetches count the requests for the document and for the keys.
	discoveries, fetches int
}

// New returns an issuer that lists new keys with these IDs.
func New(tb testing.TB, url string, keyIDs ...string) *Issuer {
	tb.Helper()
	i := &Issuer{URL: url, keys: map[string]crypto.Signer{}}
	for _, id := range keyIDs {
		i.keys[id] = NewKey(tb)
	}
	return i
}

// NewKey returns a key that tokens can be signed with.
func NewKey(tb testing.TB) crypto.Signer {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// ServeHTTP answers as an issuer.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var answer any
	switch {
	case strings.HasSuffix(r.URL.Path, "/.well-known/openid-configuration"):
		i.discoveries++
		answer = map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys"}
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

// RoundTrip answers as an issuer without a network.
func (i *Issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	i.ServeHTTP(w, r)
	return w.Result(), nil
}

// Lists replaces the keys that the issuer lists.
func (i *Issuer) Lists(keys map[string]crypto.Signer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = keys
}

// Key returns the listed key with an ID.
func (i *Issuer) Key(id string) crypto.Signer {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys[id]
}

// Answers replaces the answers; nil restores the issuer's own.
func (i *Issuer) Answers(h http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = h
}

// Counts returns the numbers of requests for the document and for the keys.
func (i *Issuer) Counts() (discoveries, fetches int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.discoveries, i.fetches
}

// Claims returns the claims of a valid token, with changes; a nil removes one.
func (i *Issuer) Claims(changes map[string]any) map[string]any {
	c := map[string]any{
		"iss": i.URL, "aud": Audience, "sub": "repo:org/app", "repository": "org/app",
		"exp": time.Now().Add(time.Minute).Unix(), "iat": time.Now().Unix(),
	}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

// Token returns a token signed with one of the listed keys.
func (i *Issuer) Token(tb testing.TB, keyID string, changes map[string]any) string {
	tb.Helper()
	i.mu.Lock()
	key := i.keys[keyID]
	i.mu.Unlock()
	return SignedToken(tb, jose.ES256, key, keyID, i.Claims(changes))
}

// SignedToken returns a token with these claims.
func SignedToken(tb testing.TB, alg jose.SignatureAlgorithm, key any, keyID string, claims map[string]any) string {
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

// KeyedToken returns a token that claims an issuer and proves nothing. Its header has a private RSA key, under a name in JSON, with a "prime" of
// so many bits.
func KeyedToken(url, name string, bits int) string {
	p := bytes.Repeat([]byte{0xa5}, bits/8)
	n := new(big.Int).Mul(new(big.Int).SetBytes(p), big.NewInt(3))
	text := base64.RawURLEncoding.EncodeToString
	key := fmt.Sprintf(`{"kty":"RSA","n":"%s","e":"AQAB","d":"Aw","p":"%s","q":"Aw"}`, text(n.Bytes()), text(p))
	header := fmt.Sprintf(`{"alg":"ES256",%s:%s}`, name, key)
	return text([]byte(header)) + "." + text(fmt.Appendf(nil, `{"iss":%q}`, url)) + "." + text(make([]byte, 64))
}

// Bearer returns a header with the token.
func Bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// Silence is the answer of an unavailable issuer.
func Silence(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusBadGateway)
	_, _ = io.WriteString(w, "no")
}
