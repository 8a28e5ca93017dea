package oidc

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"notifier/internal/receiver/oidc/oidctest"
)

// modelKey is a key of an issuer, and since when it is listed, or no longer.
type modelKey struct {
	id    string
	key   crypto.Signer
	since time.Time
}

// modelIssuer is an issuer that replaces its key now and then.
type modelIssuer struct {
	*oidctest.Issuer
	now     modelKey
	dropped []modelKey
}

func (i *modelIssuer) rotate(t *testing.T) {
	if i.now.key != nil {
		i.dropped = append(i.dropped, modelKey{i.now.id, i.now.key, time.Now()})
	}
	i.now = modelKey{fmt.Sprint("key-", len(i.dropped)), oidctest.NewKey(t), time.Now()}
	i.Lists(map[string]crypto.Signer{i.now.id: i.now.key})
}

func (i *modelIssuer) token(t *testing.T, by modelKey) http.Header {
	return oidctest.Bearer(oidctest.SignedToken(t, jose.ES256, by.key, by.id, i.Claims(nil)))
}

// issuersModel has the issuers that are common to namespaces. They answer the namespaces "good-…" at once, and others late or never.
type issuersModel struct {
	*Issuers
	t      *testing.T
	common []*modelIssuer

	mu   sync.Mutex
	draw *rand.Rand
	// asked has the times of the last discovery, by namespace and address.
	asked map[string]time.Time
}

func newIssuersModel(t *testing.T, seed uint64) *issuersModel {
	m := &issuersModel{t: t, draw: rand.New(rand.NewPCG(seed, 1)), asked: map[string]time.Time{}}
	for n := range 2 {
		i := &modelIssuer{Issuer: oidctest.New(t, fmt.Sprintf("https://common-%d.test", n))}
		i.rotate(t)
		m.common = append(m.common, i)
	}
	m.Issuers = issuersOf(t, m.answer)
	return m
}

func (m *issuersModel) below(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.draw.IntN(n)
}

// answer answers a request of a namespace.
func (m *issuersModel) answer(namespace string, r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/openid-configuration") {
		m.mu.Lock()
		of := namespace + " " + r.URL.Host
		if last, known := m.asked[of]; known && time.Since(last) < fetchPause {
			m.t.Errorf("%s is asked again after %v", of, time.Since(last))
		}
		m.asked[of] = time.Now()
		m.mu.Unlock()
	}
	answer := func() (*http.Response, error) {
		for _, i := range m.common {
			if strings.HasPrefix(r.URL.String(), i.URL+"/") {
				return i.RoundTrip(r)
			}
		}
		return nil, errors.New("refused")
	}
	fate := m.below(4)
	switch {
	case strings.HasPrefix(namespace, "good"):
		elapse(time.Duration(m.below(100)) * time.Millisecond)
	case fate == 0:
		return nil, errors.New("refused")
	case fate == 1: // what it is told is old when it arrives
		resp, err := answer()
		elapse(time.Duration(m.below(2400)) * time.Millisecond)
		return resp, err
	default:
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return answer()
}

// flood sends forged tokens to a namespace, for common issuers and for others.
func (m *issuersModel) flood(ctx context.Context, namespace string) {
	for ctx.Err() == nil {
		url := m.common[m.below(len(m.common))].URL
		if m.below(4) == 0 {
			url = fmt.Sprintf("https://other-%d.test", m.below(60))
		}
		_ = verify(tokensOf(m.t, m.Issuers, namespace, url), oidctest.Bearer(forgedToken("RS256", url, 256)), "")
		elapse(time.Duration(m.below(1500)) * time.Millisecond)
	}
}

// send sends a namespace that the issuers answer a token, of a key that is listed or was, and checks the answer.
func (m *issuersModel) send(namespace string, i *modelIssuer) {
	by, valid := i.now, time.Since(i.now.since) > 2*fetchPause
	if n := len(i.dropped); n > 0 && m.below(2) == 0 {
		by, valid = i.dropped[m.below(n)], false
	}
	m.mu.Lock()
	paused := time.Since(m.asked[namespace+" "+strings.TrimPrefix(i.URL, "https://")]) < fetchPause
	m.mu.Unlock()
	sent := time.Now()
	err := verify(tokensOf(m.t, m.Issuers, namespace, i.URL), i.token(m.t, by), "")
	switch {
	case valid && err != nil && !paused:
		m.t.Errorf("%s: of a key that is listed for %v: %v", namespace, sent.Sub(by.since), err)
	case by != i.now && err == nil && sent.Sub(by.since) > keysFresh+fetchTime:
		m.t.Errorf("%s: accepted by a key that was dropped %v ago", namespace, sent.Sub(by.since))
	}
	if took := time.Since(sent); took > foreignFetch+fetchTime/2 {
		m.t.Errorf("%s: it took %v", namespace, took)
	}
}

// check compares the counts of issuers with the uses by namespaces, and the fetches with their places.
func (m *issuersModel) check() {
	m.t.Helper()
	synctest.Wait()
	m.Issuers.mu.Lock()
	defer m.Issuers.mu.Unlock()
	users, flights, fetching := map[*issuer]int{m.byURL[m.google]: 1}, map[<-chan struct{}]bool{}, 0
	for namespace, uses := range m.uses {
		busy := 0
		for url, u := range uses {
			users[u.issuer]++
			if u.namespace != namespace || u.issuer.url != url || m.byURL[url] != u.issuer {
				m.t.Errorf("%s has the issuer %s under %s", namespace, u.issuer.url, url)
			}
			u.issuer.mu.Lock()
			if u.flight != nil {
				busy, flights[u.flight] = busy+1, true
			}
			u.issuer.mu.Unlock()
		}
		if len(uses) == 0 || len(uses) > maxIssuers || busy > fetchesAtOnce {
			m.t.Errorf("%s has %d issuers, and %d fetches", namespace, len(uses), busy)
		}
		fetching += min(busy, 1)
	}
	for url, i := range m.byURL {
		if i.users != users[i] {
			m.t.Errorf("%s has %d users, want %d", url, i.users, users[i])
		}
		i.mu.Lock()
		if i.flight != nil && !flights[i.flight] {
			m.t.Errorf("%s waits for a fetch of nobody", url)
		}
		i.mu.Unlock()
	}
	if len(m.byURL) != len(users) || m.places.Len() < fetching {
		m.t.Errorf("%d issuers, want %d; %d namespaces have places, and %d fetch", len(m.byURL), len(users), m.places.Len(), fetching)
	}
}

// round sends tokens to a namespace, during a flood of those to others.
func (m *issuersModel) round(floods int) {
	flooding, end := context.WithCancel(m.t.Context())
	var flood, tokens sync.WaitGroup
	for n := range floods {
		flood.Go(func() { m.flood(flooding, fmt.Sprint("evil-", n)) })
	}
	elapse(fetchTime)
	if m.below(4) == 0 {
		m.common[m.below(len(m.common))].rotate(m.t)
	}
	namespace, i := fmt.Sprint("good-", m.below(2)), m.common[m.below(len(m.common))]
	for range 1 + m.below(5) {
		tokens.Go(func() {
			elapse(time.Duration(m.below(100)) * time.Millisecond)
			m.send(namespace, i)
		})
	}
	tokens.Wait()
	m.check()
	end()
	flood.Wait()
}

// FuzzT6IssuersAreTheirModel sends tokens of issuers that replace their keys, while others' fetches from the same issuers hang, fail or are late.
// Fails when a namespace that the issuers answer has a token of a listed key refused, one of a key accepted that was dropped long ago, or either
// held up; when a namespace asks an issuer twice in fetchPause; when counts differ from what they count, or something is kept in the end.
func FuzzT6IssuersAreTheirModel(f *testing.F) {
	for seed := range uint64(10) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			m := newIssuersModel(t, seed)
			for range 30 {
				m.round(3 * m.below(3))
				elapse(time.Duration(m.below([]int{1, 20, 800}[m.below(3)])) * time.Second)
			}
			elapse(2 * keysUsable)
			m.send("good-2", m.common[0])
			m.check()
			if len(m.uses) != 1 || len(m.byURL) > 2 || m.places.Len() > 0 {
				t.Errorf("%d namespaces, %d issuers and the places of %d are kept", len(m.uses), len(m.byURL), m.places.Len())
			}
		})
	})
}
