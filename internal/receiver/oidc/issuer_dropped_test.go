package oidc

import (
	"context"
	"crypto"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"notifier/internal/receiver/oidc/oidctest"
)

// issuersOf returns Issuers whose requests for a namespace answer answers.
func issuersOf(t *testing.T, answer func(namespace string, r *http.Request) (*http.Response, error)) *Issuers {
	t.Helper()
	issuers, err := New(Options{Client: func(namespace string) *http.Client {
		return &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) { return answer(namespace, r) })}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return issuers
}

// T6: fails when the hanging fetches of other namespaces, of which one is under way at any time, have a namespace accept tokens that are signed
// with a key which their issuer has dropped for longer than keysFresh.
func TestT6FetchesThatHangForOtherNamespacesKeepNoDroppedKeyInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := oidctest.New(t, issuerURL, "a")
		issuers := issuersOf(t, func(namespace string, r *http.Request) (*http.Response, error) {
			if namespace == "good" {
				return issuer.RoundTrip(r)
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		good, dropped := tokensOf(t, issuers, "good", issuerURL), issuer.Key("a")
		token := func() http.Header {
			return oidctest.Bearer(oidctest.SignedToken(t, jose.ES256, dropped, "a", issuer.Claims(nil)))
		}
		if err := verify(good, token(), ""); err != nil {
			t.Fatal(err)
		}
		issuer.Lists(map[string]crypto.Signer{"b": oidctest.NewKey(t)})
		flooding, end := context.WithCancel(t.Context())
		var flood sync.WaitGroup
		for n := range 3 {
			evil := tokensOf(t, issuers, fmt.Sprint("evil-", n), issuerURL)
			flood.Go(func() {
				for flooding.Err() == nil {
					_ = verify(evil, oidctest.Bearer(forgedToken("RS256", issuerURL, 256)), "")
					elapse(time.Second)
				}
			})
		}
		elapse(keysFresh + time.Minute)
		sent := time.Now()
		if err := verify(good, token(), ""); err != RefusedKey { //nolint:errorlint // a Refusal is told as it is
			t.Errorf("of the token with the dropped key: got %v, want %v", err, RefusedKey)
		}
		if took := time.Since(sent); took > foreignFetch {
			t.Errorf("it took %v", took)
		}
		end()
		flood.Wait()
	})
}

// T6: fails when a token is answered that the keys are not available, though its namespace's fetch is under way, because another namespace's had
// begun before and hangs.
func TestT6ATokenWaitsForTheFetchThatItsNamespaceBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := oidctest.New(t, issuerURL, "a")
		issuers := issuersOf(t, func(namespace string, r *http.Request) (*http.Response, error) {
			if namespace == "good" {
				elapse(time.Second / 10)
				return issuer.RoundTrip(r)
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		var tokens sync.WaitGroup
		for n, namespace := range []string{"evil", "good", "good"} {
			tokens.Go(func() {
				elapse(time.Duration(n) * time.Second / 20)
				err := verify(tokensOf(t, issuers, namespace, issuerURL), oidctest.Bearer(issuer.Token(t, "a", nil)), "")
				if namespace == "good" && err != nil {
					t.Errorf("of token %d: %v", n, err)
				}
			})
		}
		tokens.Wait()
	})
}

// Fails when a token that is signed with a dropped key is accepted because another one came just before, for which the keys are being fetched, or
// when one of a key that is known waits for longer than foreignFetch because that fetch hangs.
func TestATokenWithADroppedKeyWaitsForTheFetchUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := oidctest.New(t, issuerURL, "a")
		takes := time.Second / 10
		issuers := issuersOf(t, func(_ string, r *http.Request) (*http.Response, error) {
			elapse(takes)
			return issuer.RoundTrip(r)
		})
		dropped := issuer.Key("a")
		send := func() error {
			token := oidctest.SignedToken(t, jose.ES256, dropped, "a", issuer.Claims(nil))
			return verify(tokensOf(t, issuers, "team-a", issuerURL), oidctest.Bearer(token), "")
		}
		if err := send(); err != nil {
			t.Fatal(err)
		}
		issuer.Lists(map[string]crypto.Signer{"a": oidctest.NewKey(t)})
		elapse(keysUsable / 2)
		var tokens sync.WaitGroup
		for range 3 {
			tokens.Go(func() {
				if err := send(); err != RefusedSigned { //nolint:errorlint // a Refusal is told as it is
					t.Errorf("got %v, want %v", err, RefusedSigned)
				}
			})
		}
		tokens.Wait()
		elapse(keysFresh)
		dropped, takes = issuer.Key("a"), fetchTime
		tokens.Go(func() { _ = send() })
		synctest.Wait()
		began := time.Now()
		if err := send(); err != nil || time.Since(began) != foreignFetch {
			t.Errorf("while a fetch hangs: got %v after %v", err, time.Since(began))
		}
		tokens.Wait()
	})
}
