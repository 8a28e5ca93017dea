package sender

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

// Issuer is an OpenID Connect issuer on a loopback address: it serves the discovery document and its keys, and signs tokens.
type Issuer struct {
	// URL is its identity, the claim "iss".
	URL string

	server *http.Server
	mu     sync.Mutex
	keys   map[string]*ecdsa.PrivateKey // by key ID, the listed keys
	last   string                       // key that signs
	made   int
	// discoveries and fetches count the requests for the document and for the keys.
	discoveries, fetches int
}

// NewIssuer starts an issuer with one key.
func NewIssuer() (*Issuer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	i := &Issuer{URL: "http://" + listener.Addr().String(), keys: map[string]*ecdsa.PrivateKey{}}
	i.Rotate()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", i.discovery)
	mux.HandleFunc("GET /keys", i.jwks)
	i.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = i.server.Serve(listener) }() // until Close
	return i, nil
}

// Close ends the issuer.
func (i *Issuer) Close() error { return i.server.Close() }

func (i *Issuer) discovery(w http.ResponseWriter, _ *http.Request) {
	i.mu.Lock()
	i.discoveries++
	i.mu.Unlock()
	answer(w, map[string]any{
		"issuer": i.URL, "authorization_endpoint": i.URL + "/auth", "token_endpoint": i.URL + "/token", "jwks_uri": i.URL + "/keys",
		"response_types_supported": []string{"id_token"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": []string{"ES256"},
	})
}

func (i *Issuer) jwks(w http.ResponseWriter, _ *http.Request) {
	i.mu.Lock()
	i.fetches++
	set := jose.JSONWebKeySet{}
	for id, key := range i.keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.Public(), KeyID: id, Algorithm: "ES256", Use: "sig"})
	}
	i.mu.Unlock()
	answer(w, set)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that closed the connection gets no answer
}

// Rotate makes a key that signs from now on, and lists it beside the earlier ones. It returns the key's ID.
func (i *Issuer) Rotate() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.made++
	i.last = fmt.Sprintf("key-%d", i.made)
	i.keys[i.last] = newKey()
	return i.last
}

// Drop removes a key from the list.
func (i *Issuer) Drop(keyID string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.keys, keyID)
}

// Requests returns the numbers of requests for the document and for the keys.
func (i *Issuer) Requests() (discoveries, fetches int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.discoveries, i.fetches
}

// Claims are the claims of a token that is valid for a minute. A nil among the changes removes a claim.
type Claims map[string]any

// Token signs claims with the newest key.
func (i *Issuer) Token(audience string, changes Claims) string {
	i.mu.Lock()
	key, id := i.keys[i.last], i.last
	i.mu.Unlock()
	return i.sign(key, id, audience, changes)
}

// Forge signs as the issuer would, with a key that is not the issuer's, under a key ID that may be.
func (i *Issuer) Forge(keyID, audience string, changes Claims) string {
	return i.sign(newKey(), keyID, audience, changes)
}

func (i *Issuer) sign(key *ecdsa.PrivateKey, keyID, audience string, changes Claims) string {
	now := time.Now()
	claims := Claims{"iss": i.URL, "aud": audience, "sub": "team", "iat": now.Unix(), "exp": now.Add(time.Minute).Unix()}
	maps.Copy(claims, changes)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: keyID}},
		(&jose.SignerOptions{}).WithType("JWT"))
	payload, e := json.Marshal(claims)
	if err = errors.Join(err, e); err != nil {
		panic(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		panic(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return token
}

func newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}
