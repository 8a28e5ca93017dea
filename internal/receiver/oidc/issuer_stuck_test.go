package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/receiver/oidc/oidctest"
)

// T6: the fetches of a namespace fail when its turns to process handshakes are used up, as by its Providers' destinations, and the issuers of
// Git hosts are common to many namespaces. Fails when junk tokens to Receivers of other namespaces, whose fetches hang, keep a namespace from
// the keys of an issuer that answers, at first or when those that it has are too old.
func TestT6FetchesThatHangForOtherNamespacesKeepNobodyFromTheKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := oidctest.New(t, issuerURL, "a")
		var mu sync.Mutex
		asked := map[string]int{}
		issuers, err := New(Options{Client: func(namespace string) *http.Client {
			return &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				mu.Lock()
				asked[namespace]++
				mu.Unlock()
				if namespace == "good" {
					return issuer.RoundTrip(r)
				}
				<-r.Context().Done()
				return nil, r.Context().Err()
			})}
		}})
		if err != nil {
			t.Fatal(err)
		}
		flooding, end := context.WithCancel(t.Context())
		began := time.Now()
		var flood sync.WaitGroup
		for n := range 3 {
			evil := tokensOf(t, issuers, fmt.Sprint("evil-", n), issuerURL)
			junk := oidctest.Bearer(forgedToken("RS256", issuerURL, 256))
			for range 4 {
				flood.Go(func() {
					for flooding.Err() == nil {
						_ = verify(evil, junk, "")
						elapse(time.Second)
					}
				})
			}
		}
		good := tokensOf(t, issuers, "good", issuerURL)
		for _, after := range []time.Duration{30*time.Second + 10*time.Millisecond, keysFresh, 2 * keysUsable} {
			elapse(after)
			header, sent := oidctest.Bearer(issuer.Token(t, "a", nil)), time.Now()
			if err := verify(good, header, ""); err != nil || time.Since(sent) > foreignFetch {
				t.Errorf("%v later: %v after %v", after, err, time.Since(sent))
			}
		}
		end()
		flood.Wait()
		for n := range 3 {
			most := int(time.Since(began)/fetchPause) + 1
			if got := asked[fmt.Sprint("evil-", n)]; got > most {
				t.Errorf("the issuer is asked %d times for a flood, want at most %d", got, most)
			}
		}
		if asked["good"] > 6 {
			t.Errorf("the issuer is asked %d times for three tokens", asked["good"])
		}
	})
}

// Fails when a slow fetch for one namespace, which an issuer answered before it changed its keys, replaces the newer keys that another
// namespace has fetched meanwhile.
func TestASlowFetchDoesNotBringBackOldKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, now := oidctest.New(t, issuerURL, "old"), oidctest.New(t, issuerURL, "new")
		issuers, err := New(Options{Client: func(namespace string) *http.Client {
			return &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				if namespace == "good" {
					return now.RoundTrip(r)
				}
				elapse(fetchTime / 2 * 9 / 10)
				return before.RoundTrip(r)
			})}
		}})
		if err != nil {
			t.Fatal(err)
		}
		slow := make(chan error, 1)
		header := oidctest.Bearer(before.Token(t, "old", nil))
		go func() { slow <- verify(tokensOf(t, issuers, "slow", issuerURL), header, "") }()
		elapse(time.Second)
		good := tokensOf(t, issuers, "good", issuerURL)
		for _, when := range []string{"before the slow fetch ends", "after it"} {
			if err := verify(good, oidctest.Bearer(now.Token(t, "new", nil)), ""); err != nil {
				t.Errorf("%s: %v", when, err)
			}
			elapse(fetchTime)
		}
		if err := <-slow; err != RefusedKey { //nolint:errorlint // a Refusal is told as it is
			t.Errorf("of the token with the old key: got %v, want %v", err, RefusedKey)
		}
	})
}

// Fails when an issuer that does not answer is asked more than once in ten seconds for one namespace, because it is asked for others too.
func TestAnIssuerThatIsAwayIsAskedOnceForEachNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		asked := 0
		issuers := newIssuers(t, roundTripper(func(*http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			asked++
			return nil, errors.New("refused")
		}), "")
		const namespaces = 5
		for range 10 {
			for n := range namespaces {
				of := tokensOf(t, issuers, fmt.Sprint("team-", n), issuerURL)
				if err := verify(of, oidctest.Bearer(forgedToken("RS256", issuerURL, 256)), ""); !errors.Is(err, ErrIssuerUnavailable) {
					t.Fatal(err)
				}
			}
		}
		if asked > namespaces {
			t.Errorf("asked %d times at once", asked)
		}
	})
}
