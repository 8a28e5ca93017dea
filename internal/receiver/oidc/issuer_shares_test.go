package oidc

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/receiver/oidc/oidctest"
)

// Invariant T6: one namespace's junk tokens for ever more issuers evict no other namespace's issuer, and cause a bounded number of requests
// to a host, and in all. Fails when the issuers of all namespaces share one list, and when an issuer that was just asked is evicted and so
// asked again. Also fails when a namespace's fetches, of one host or in all, have no bound, or those of many hosts that of one.
func TestT6ANamespaceForgetsAndAsksForItselfAlone(t *testing.T) {
	for name, test := range map[string]struct {
		url func(n int) string
		// most is the number of requests that the network gets at once.
		most int
	}{
		"one host":   {func(n int) string { return fmt.Sprintf("https://target.test/%d", n) }, maxHostFetches},
		"many hosts": {func(n int) string { return fmt.Sprintf("https://target-%d.test", n) }, fetchBurst},
	} {
		synctest.Test(t, func(t *testing.T) {
			victim := oidctest.New(t, issuerURL, "a")
			asked := 0
			issuers := newIssuers(t, roundTripper(func(r *http.Request) (*http.Response, error) {
				if "https://"+r.URL.Host == issuerURL {
					return victim.RoundTrip(r)
				}
				asked++
				return nil, errors.New("refused")
			}), "")
			good := tokensOf(t, issuers, "good", issuerURL)
			header := oidctest.Bearer(victim.Token(t, "a", nil))
			for range 3 {
				if err := verify(good, header, ""); err != nil {
					t.Fatal(name, err)
				}
				for n := range 100 {
					evil := tokensOf(t, issuers, "evil", test.url(n))
					if err := verify(evil, oidctest.Bearer(forgedToken("RS256", test.url(n), 256)), ""); !errors.Is(err, ErrIssuerUnavailable) {
						t.Fatal(name, err)
					}
				}
			}
			victim.Answers(oidctest.Silence)
			if err := verify(good, header, ""); err != nil {
				t.Errorf("%s: the other namespace's keys were forgotten: %v", name, err)
			}
			if _, fetches := victim.Counts(); fetches != 1 || asked != test.most {
				t.Errorf("%s: the other's issuer was asked %d times, the network %d times", name, fetches, asked)
			}
			if n := len(issuers.byURL); n > maxIssuers+2 {
				t.Errorf("%s: %d issuers are remembered", name, n)
			}
		})
	}
}

// Fails when a namespace's fetches from slow issuers have no bound, or delay those of another.
func TestT6FetchesOfANamespaceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		victim := oidctest.New(t, issuerURL, "a")
		var now, most atomic.Int64
		issuers := newIssuers(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			if "https://"+r.URL.Host == issuerURL {
				return victim.RoundTrip(r)
			}
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			<-r.Context().Done()
			return nil, r.Context().Err()
		}), "")
		var all sync.WaitGroup
		for n := range 8 {
			url := fmt.Sprintf("https://slow-%d.test", n)
			all.Go(func() {
				_ = verify(tokensOf(t, issuers, "evil", url), oidctest.Bearer(forgedToken("RS256", url, 256)), "")
			})
		}
		synctest.Wait()
		start := time.Now()
		if err := verify(tokensOf(t, issuers, "good", issuerURL), oidctest.Bearer(victim.Token(t, "a", nil)), ""); err != nil || time.Since(start) > 0 {
			t.Errorf("another namespace: %v after %v", err, time.Since(start))
		}
		all.Wait()
		if most.Load() != fetchesAtOnce {
			t.Errorf("%d fetches at once, want %d", most.Load(), fetchesAtOnce)
		}
	})
}

// Fails when the wrong issuer is evicted, when Google's is, when another namespace's is, and when unused ones are kept for ever.
func TestTheIssuerThatANamespaceUsedLongestAgoIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newIssuers(t, http.DefaultTransport, "")
		of := func(namespace, url string) *issuer {
			elapse(time.Millisecond)
			return s.use(namespace, url).issuer
		}
		first, second, third := of("a", "https://0"), of("a", "https://1"), of("a", "https://2")
		google := of("b", GoogleIssuer)
		of("b", "https://2")
		for n := 3; n < maxIssuers; n++ {
			of("a", fmt.Sprint("https://", n))
		}
		if of("a", "https://0") != first {
			t.Error("forgotten before there are too many")
		}
		of("a", "https://one-more")
		of("a", "https://two-more")
		if len(s.uses["a"]) != maxIssuers {
			t.Errorf("%d issuers are remembered, want %d", len(s.uses["a"]), maxIssuers)
		}
		if of("a", "https://0") != first || of("a", "https://1") == second || of("a", "https://2") != third {
			t.Error("the wrong issuer was forgotten")
		}
		elapse(keysUsable)
		of("c", "https://0")
		if len(s.uses) != 1 || len(s.byURL) != 2 || of("c", GoogleIssuer) != google {
			t.Errorf("%d shares, %d issuers are remembered", len(s.uses), len(s.byURL))
		}
	})
}
