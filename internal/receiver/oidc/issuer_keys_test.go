package oidc

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"math/big"
	"runtime"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"notifier/internal/receiver/oidc/oidctest"
)

// listed returns an issuer's list of keys.
func listed(entries ...string) []byte { return []byte(`{"keys":[` + strings.Join(entries, ",") + `]}`) }

// listing returns a key as an issuer lists it, with changes.
func listing(tb testing.TB, key any, changes map[string]any) string {
	tb.Helper()
	members := map[string]any{}
	data, err := json.Marshal(jose.JSONWebKey{Key: key, KeyID: "good"})
	if err == nil {
		err = json.Unmarshal(data, &members)
	}
	if err != nil {
		tb.Fatal(err)
	}
	maps.Copy(members, changes)
	if data, err = json.Marshal(members); err != nil {
		tb.Fatal(err)
	}
	return string(data)
}

// Fails when a key that cannot verify disables the others, when a key is accepted that is easy to break or slow to use, and when their
// number has no bound.
func TestOnlyFitKeysAreKept(t *testing.T) {
	good := jose.JSONWebKey{Key: oidctest.NewKey(t).Public(), KeyID: "good"}
	encoded := func(key any) string {
		data, err := json.Marshal(key)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	huge := strings.Repeat("_", 20000)
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := parseKeys([]byte(`{"keys":[` + strings.Join([]string{
		`{"kty":"new"}`, `null`, `1`, `{"kty":"oct","k":"c2VjcmV0","kid":"symmetric"}`,
		`{"kty":"RSA","kid":"huge","e":"AQAB","n":"` + huge + `"}`,
		encoded(jose.JSONWebKey{Key: short.Public(), KeyID: "short"}),
		encoded(jose.JSONWebKey{Key: good.Key, KeyID: "encryption", Use: "enc"}),
		encoded(good),
	}, ",") + `]}`))
	if err != nil || len(keys) != 1 || keys[0].KeyID != "good" {
		t.Errorf("kept %d keys, %v", len(keys), err)
	}
	keys, err = parseKeys([]byte(`{"keys":[` + strings.TrimSuffix(strings.Repeat(encoded(good)+",", maxKeys+5), ",") + `]}`))
	if err != nil || len(keys) != maxKeys {
		t.Errorf("kept %d keys, %v", len(keys), err)
	}
}

// useOf returns the use of an issuer that has just answered with the keys.
func useOf(keys []jose.JSONWebKey) *use {
	now := time.Now()
	return &use{issuer: &issuer{keys: keys, fetched: now, tried: now}}
}

// forgedToken returns a token without a valid signature that names no key.
func forgedToken(algorithm, issuer string, signature int) string {
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"`+algorithm+`"}`)) + "." + part([]byte(`{"iss":"`+issuer+`"}`)) + "." + part(make([]byte, signature))
}

// Invariant T5: a rejected webhook is cheap. Fails when an RSA key is accepted that is many times slower than those of real issuers.
func TestT5NoKeyIsSlowToVerifyWith(t *testing.T) {
	n := func(bits uint) string {
		odd := new(big.Int).Add(new(big.Int).Lsh(big.NewInt(1), bits-1), big.NewInt(1))
		return base64.RawURLEncoding.EncodeToString(odd.Bytes())
	}
	for name, test := range map[string]struct {
		n, e string
		want int
	}{
		"2048 bits":          {n(minRSA), "AQAB", 1},
		"4096 bits":          {n(maxRSA), "Aw", 1},
		"one bit more":       {n(maxRSA + 1), "AQAB", 0},
		"8192 bits":          {n(8192), "AQAB", 0},
		"a greater exponent": {n(minRSA), "AQAD", 0},
		"a huge exponent":    {n(minRSA), "f____w", 0},
	} {
		keys, err := parseKeys(listed(`{"kty":"RSA","n":"` + test.n + `","e":"` + test.e + `"}`))
		if err != nil || len(keys) != test.want {
			t.Errorf("%s: kept %d keys, %v", name, len(keys), err)
		}
	}
}

// Invariant T5: fails when a token that names no key is tried with all listed keys, or with keys of another sort. Also fails when it is
// tried with too few although the real key is among the first that fit.
func TestT5ATokenIsTriedWithFewKeys(t *testing.T) {
	signer, err := rsa.GenerateKey(rand.Reader, minRSA)
	if err != nil {
		t.Fatal(err)
	}
	good := jose.JSONWebKey{Key: signer.Public()}
	other, elliptic := jose.JSONWebKey{Key: &rsa.PublicKey{N: new(big.Int).Add(signer.N, big.NewInt(2)), E: 3}}, jose.JSONWebKey{Key: oidctest.NewKey(t).Public()}
	token := oidctest.SignedToken(t, jose.RS256, signer, "", map[string]any{"iss": issuerURL})
	for name, test := range map[string]struct {
		keys []jose.JSONWebKey
		want error
	}{
		"fourth of its sort":  {[]jose.JSONWebKey{elliptic, other, elliptic, other, elliptic, other, elliptic, good}, nil},
		"fifth of its sort":   {[]jose.JSONWebKey{other, other, other, other, good}, RefusedSigned},
		"for another purpose": {[]jose.JSONWebKey{{Key: good.Key, Algorithm: "PS256"}}, RefusedKey},
		"of no sort":          {[]jose.JSONWebKey{elliptic, {Key: ed25519.PublicKey(make([]byte, 32))}}, RefusedKey},
	} {
		if _, err := verifySignature(t.Context(), token, useOf(test.keys), Demand{}); !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
}

// Invariant T6: the keys of all tenants' issuers are kept together. Fails when other members of a key are kept with it, such as a mebibyte
// of certificates for each issuer, and when an endless list of unfit entries is read to its end.
func TestT6AStoredKeyIsSmall(t *testing.T) {
	public := oidctest.NewKey(t).Public()
	good := listing(t, public, nil)
	for name, test := range map[string]struct {
		body []byte
		want int
	}{
		"certificates":           {listed(listing(t, public, map[string]any{"x5c": []string{"no certificate"}, "x5t": "!"})), 1},
		"a long ID":              {listed(listing(t, public, map[string]any{"kid": strings.Repeat("k", maxKeyID+1)}), good), 1},
		"a long algorithm":       {listed(listing(t, public, map[string]any{"alg": strings.Repeat("a", 1000)})), 0},
		"a symmetric algorithm":  {listed(listing(t, public, map[string]any{"alg": "HS256"})), 0},
		"a private key":          {listed(listing(t, oidctest.NewKey(t), nil)), 0},
		"a key behind much else": {listed(strings.Repeat("1,", maxListed) + good), 0},
	} {
		keys, err := parseKeys(test.body)
		if err != nil || len(keys) != test.want {
			t.Errorf("%s: kept %d keys, %v", name, len(keys), err)
		}
		for _, key := range keys {
			if key.KeyID != "good" || key.Certificates != nil || key.CertificateThumbprintSHA1 != nil {
				t.Errorf("%s: kept %+v", name, key)
			}
		}
	}
	full := make([]string, maxKeys)
	for i := range full {
		full[i] = listing(t, public, map[string]any{"more": strings.Repeat("x", maxFetched/maxKeys-300)})
	}
	const issuers = 16
	kept, body := make([][]jose.JSONWebKey, issuers), listed(full...)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range kept {
		kept[i], _ = parseKeys(body)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / issuers
	t.Logf("%d keys of an answer of %d KiB hold %d KiB", len(kept[0]), len(body)>>10, each>>10)
	if len(kept[0]) != maxKeys || each > 64<<10 {
		t.Errorf("%d keys of an issuer hold %d KiB", len(kept[0]), each>>10)
	}
	runtime.KeepAlive(kept)
}
