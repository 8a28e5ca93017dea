package oidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
	jose "github.com/go-jose/go-jose/v4"
)

// asymmetric are the accepted algorithms of tokens. With a symmetric one, every reader of an issuer's public keys could sign.
var asymmetric = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
}

// fetchKeys reads an issuer's discovery document and the keys that it names. The error may quote the issuer's answer: it must not be shown.
func fetchKeys(ctx context.Context, client *http.Client, issuer string) ([]jose.JSONWebKey, error) {
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, client), issuer)
	if err != nil {
		return nil, err
	}
	var document struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&document); err != nil {
		return nil, err
	}
	if err := CheckAddress(document.Keys); err != nil {
		return nil, fmt.Errorf("jwks_uri %w", err)
	}
	if strings.HasPrefix(issuer, "https://") && !strings.HasPrefix(document.Keys, "https://") {
		return nil, errors.New("the keys of an issuer on https are not")
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, document.Keys, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("keys: %s", resp.Status)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	return parseKeys(body)
}

// CheckAddress returns an error, without a quote, if an address is unfit for an issuer or its keys. A query or a fragment could make it any
// other address, and a user's name a login.
func CheckAddress(address string) error {
	parsed, err := url.Parse(address)
	switch {
	case err != nil, parsed.Host == "", !strings.HasPrefix(address, "https://") && !strings.HasPrefix(address, "http://"):
		return errors.New("is not an http or https URL")
	case parsed.User != nil:
		return errors.New("has a user name or password")
	case strings.ContainsAny(address, "?#"):
		return errors.New("has a query or a fragment")
	}
	return nil
}

// Bounds on the list of one issuer.
const (
	// maxKeys bounds the keys that are kept, and maxListed the entries that are parsed for them; the rest is ignored.
	maxKeys, maxListed = 32, 128
	// maxKeyID bounds a key's ID in bytes. A key with a longer ID is left out.
	maxKeyID = 256
)

// publicKey has the members of a JSON Web Key that verification needs. Others are dropped before they are parsed: certificates, above all,
// would be kept with everything derived from them.
type publicKey struct {
	Type      string `json:"kty"`
	KeyID     string `json:"kid,omitempty"`
	Use       string `json:"use,omitempty"`
	Algorithm string `json:"alg,omitempty"`
	Curve     string `json:"crv,omitempty"`
	X         string `json:"x,omitempty"`
	Y         string `json:"y,omitempty"`
	N         string `json:"n,omitempty"`
	E         string `json:"e,omitempty"`
	Private   string `json:"d,omitempty"`
}

// parseKeys parses the keys that can verify a token, and keeps of each only the key, its ID and its algorithm. Others are left out, so that
// a future kind of key does not disable those beside it.
func parseKeys(body []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, err
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys[:min(len(set.Keys), maxListed)] {
		if len(keys) == maxKeys {
			break
		}
		if key, ok := parseKey(raw); ok {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// parseKey parses one entry of an issuer's list, and reports whether it can verify a token.
func parseKey(raw []byte) (jose.JSONWebKey, bool) {
	var read publicKey
	if json.Unmarshal(raw, &read) != nil || len(read.KeyID) > maxKeyID ||
		read.Algorithm != "" && !slices.Contains(asymmetric, read.Algorithm) {
		return jose.JSONWebKey{}, false
	}
	stripped, err := json.Marshal(read)
	if err != nil {
		return jose.JSONWebKey{}, false
	}
	var key jose.JSONWebKey
	if key.UnmarshalJSON(stripped) != nil || !verifies(key) {
		return jose.JSONWebKey{}, false
	}
	return jose.JSONWebKey{Key: key.Key, KeyID: key.KeyID, Algorithm: key.Algorithm}, true
}

// Bounds on RSA keys, in bits: a shorter key can be broken; a longer one, or a greater exponent, is slow to compute with. No issuer has
// greater ones than these.
const (
	minRSA, maxRSA = 2048, 4096
	maxExponent    = 65537
)

func verifies(key jose.JSONWebKey) bool {
	if !key.IsPublic() || key.Use != "" && key.Use != "sig" {
		return false
	}
	switch k := key.Key.(type) {
	case *rsa.PublicKey:
		return k.N.BitLen() >= minRSA && k.N.BitLen() <= maxRSA && k.E <= maxExponent
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

// curves are the curves of the algorithms on elliptic curves.
var curves = map[string]string{oidc.ES256: "P-256", oidc.ES384: "P-384", oidc.ES512: "P-521"}

// slow reports whether a signature takes milliseconds to check: ten to thirty times as long as with the other algorithms.
func slow(algorithm string) bool { return algorithm == oidc.ES384 || algorithm == oidc.ES512 }

// fits reports whether a key is for tokens that are signed with the algorithm.
func fits(key jose.JSONWebKey, algorithm string) bool {
	if key.Algorithm != "" && key.Algorithm != algorithm {
		return false
	}
	switch k := key.Key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS")
	case *ecdsa.PublicKey:
		return curves[algorithm] == k.Params().Name
	case ed25519.PublicKey:
		return algorithm == oidc.EdDSA
	}
	return false
}
