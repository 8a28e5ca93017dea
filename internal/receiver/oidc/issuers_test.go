package oidc

import (
	"crypto"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"notifier/internal/receiver/oidc/oidctest"
)

// Invariant T5: a rejected webhook is cheap. Fails when each token that names an unknown key causes a fetch, and when waiting requests
// fetch the keys each for themselves.
func TestT5ForgedTokensCostOneFetchInTenSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		issuer := oidctest.New(t, issuerURL, "a")
		v := oidcVerifier(t, newIssuers(t, issuer, ""), issuerURL)
		own := oidctest.NewKey(t)
		const senders = 1000
		flood := func() {
			var all sync.WaitGroup
			for n := range senders {
				forged := oidctest.SignedToken(t, jose.ES256, own, fmt.Sprint("forged-", n), issuer.Claims(nil))
				all.Go(func() {
					if err := verify(v, oidctest.Bearer(forged), ""); err != RefusedKey { //nolint:errorlint // a Refusal is told as it is
						t.Errorf("got %v", err)
					}
				})
			}
			all.Wait()
		}
		for window := 1; window <= 3; window++ {
			flood()
			discoveries, fetches := issuer.Counts()
			t.Logf("after %d forged tokens: %d discoveries, %d fetches of keys", window*senders, discoveries, fetches)
			if discoveries != window || fetches != window {
				t.Errorf("want %d of each", window)
			}
			elapse(fetchPause)
		}
	})
}

// Fails when a new key is not fetched, and when it is fetched without end. Also fails when a dropped key, or the keys of an issuer that no
// longer answers, are used for longer than documented.
func TestKeysFollowTheirIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := oidctest.New(t, issuerURL, "old")
		v := oidcVerifier(t, newIssuers(t, issuer, ""), issuerURL)
		old, next := issuer.Key("old"), oidctest.NewKey(t)
		expect := func(what string, key crypto.Signer, keyID string, want error) {
			t.Helper()
			token := oidctest.SignedToken(t, jose.ES256, key, keyID, issuer.Claims(nil))
			if err := verify(v, oidctest.Bearer(token), ""); !errors.Is(err, want) {
				t.Errorf("%s: got %v, want %v", what, err, want)
			}
		}

		expect("first", old, "old", nil)
		issuer.Lists(map[string]crypto.Signer{"old": old, "next": next})
		expect("a new key, at once", next, "next", RefusedKey)
		elapse(fetchPause)
		expect("a new key", next, "next", nil)
		if _, fetches := issuer.Counts(); fetches != 2 {
			t.Errorf("%d fetches, want 2", fetches)
		}
		issuer.Lists(map[string]crypto.Signer{"next": next})
		elapse(keysFresh - time.Second)
		expect("a dropped key, while keys are fresh", old, "old", nil)
		elapse(time.Second)
		expect("a dropped key", old, "old", RefusedKey)

		issuer.Answers(oidctest.Silence)
		elapse(keysUsable - time.Second)
		expect("a silent issuer, within the hour", next, "next", nil)
		expect("a silent issuer's unknown key", old, "old", ErrIssuerUnavailable)
		elapse(time.Second)
		expect("a silent issuer, after the hour", next, "next", ErrIssuerUnavailable)
		_, before := issuer.Counts()
		expect("once more", next, "next", ErrIssuerUnavailable)
		if discoveries, fetches := issuer.Counts(); fetches != before {
			t.Errorf("a silent issuer was asked again at once: %d, %d", discoveries, fetches)
		}
		issuer.Answers(nil)
		elapse(fetchPause)
		expect("the issuer is back", next, "next", nil)

		issuer.Lists(map[string]crypto.Signer{"": old})
		elapse(fetchPause)
		expect("a new key without an ID", old, "", nil)
	})
}

// Fails when a fetch has no end, and when it ends with the sender that began it.
func TestASlowIssuerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hanging := roundTripper(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		issuer := oidctest.New(t, issuerURL, "a")
		v := oidcVerifier(t, newIssuers(t, hanging, ""), issuerURL)
		start := time.Now()
		if err := verify(v, oidctest.Bearer(issuer.Token(t, "a", nil)), ""); !errors.Is(err, ErrIssuerUnavailable) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took != fetchTime {
			t.Errorf("given up after %v, want %v", took, fetchTime)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Fails when an issuer can redirect the fetch, fill the memory, claim another identity, or leave https.
func TestAnIssuersAnswersAreNotTrusted(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/keys", http.StatusFound)
		},
		"an endless document": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":"%[1]s/keys","more":%q}`, issuerURL, strings.Repeat("a", maxFetched))
		},
		"another issuer": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"issuer":"https://evil.test","jwks_uri":"%s/keys"}`, issuerURL)
		},
		"keys without TLS": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":"http://issuer.test/keys"}`, issuerURL)
		},
		"keys with a query": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":"https://issuer.test/keys?delete=all"}`, issuerURL)
		},
		"keys with a password": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":"https://user:password@issuer.test/keys"}`, issuerURL)
		},
		"no JSON": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"nothing": func(http.ResponseWriter, *http.Request) {},
	} {
		issuer := oidctest.New(t, issuerURL, "a")
		issuer.Answers(answer)
		reached := map[string]int{}
		v := oidcVerifier(t, newIssuers(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			reached[r.URL.String()]++
			return issuer.RoundTrip(r)
		}), ""), issuerURL)
		if err := verify(v, oidctest.Bearer(issuer.Token(t, "a", nil)), ""); !errors.Is(err, ErrIssuerUnavailable) {
			t.Errorf("%s: got %v", name, err)
		}
		if len(reached) != 1 || reached[issuerURL+"/.well-known/openid-configuration"] != 1 {
			t.Errorf("%s: reached %v", name, reached)
		}
	}
}
