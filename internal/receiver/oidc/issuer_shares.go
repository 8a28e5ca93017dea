package oidc

import (
	"net/url"
	"time"
)

// Bounds on one namespace's issuers and fetches. Beyond them the namespace's own tokens are answered 503.
const (
	// maxIssuers bounds the issuers of a namespace; the least recently used is evicted.
	maxIssuers = 32
	// fetchesAtOnce, fetchRate a second and fetchBurst bound its fetches, and maxHostFetches those from one host within fetchPause.
	fetchesAtOnce  = 2
	fetchRate      = 1
	fetchBurst     = 16
	maxHostFetches = 8
	// maxRates bounds the namespaces whose fetches are counted.
	maxRates = 1 << 14
	// sweepPause is the least time between two searches for issuers that a namespace has not used for keysUsable.
	sweepPause = time.Minute
)

// use is one namespace's use of one issuer, whose keys it fetches. The lock of Issuers protects last and asked, that of the issuer flight
// and patience.
type use struct {
	issuers   *Issuers
	namespace string
	issuer    *issuer
	host      string
	// last is the time of the namespace's last token of the issuer, asked that of its last fetch.
	last, asked time.Time
	// flight is closed when the namespace's own fetch ends, nil when none runs. A token that is signed with an old key waits until patience.
	flight   chan struct{}
	patience time.Time
}

// paused reports whether the namespace fetched the issuer's keys within fetchPause. Meanwhile the issuer is not evicted, since it could be
// asked again without a pause. A fetch in progress is within that time.
func (u *use) paused(now time.Time) bool { return !u.asked.IsZero() && now.Sub(u.asked) < fetchPause }

// mayAsk reports whether the namespace has not fetched the issuer's keys within fetchPause.
func (u *use) mayAsk() bool {
	u.issuers.mu.Lock()
	defer u.issuers.mu.Unlock()
	return !u.paused(time.Now())
}

// use returns the use of an issuer by a namespace with a token of it, nil if the namespace has no capacity for it.
func (s *Issuers) use(namespace, address string) *use {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.sweep(now)
	if s.uses[namespace] == nil {
		s.uses[namespace] = map[string]*use{}
	}
	uses := s.uses[namespace]
	u := uses[address]
	if u == nil {
		if len(uses) >= maxIssuers && !s.forgetOne(uses, now) {
			return nil
		}
		i := s.byURL[address]
		if i == nil {
			i = &issuer{url: address}
			s.byURL[address] = i
		}
		i.users++
		u = &use{issuers: s, namespace: namespace, issuer: i}
		if parsed, err := url.Parse(address); err == nil {
			u.host = parsed.Host
		}
		uses[address] = u
	}
	u.last = now
	return u
}

// forgetOne evicts an issuer from those of a namespace, and reports whether one could be evicted.
func (s *Issuers) forgetOne(uses map[string]*use, now time.Time) bool {
	var oldest *use
	for _, u := range uses {
		if !u.paused(now) && (oldest == nil || u.last.Before(oldest.last)) {
			oldest = u
		}
	}
	if oldest == nil {
		return false
	}
	s.forget(oldest)
	return true
}

// forget ends a namespace's use of an issuer, and removes the issuer with its last use.
func (s *Issuers) forget(u *use) {
	delete(s.uses[u.namespace], u.issuer.url)
	if u.issuer.users--; u.issuer.users == 0 {
		delete(s.byURL, u.issuer.url)
	}
}

// sweep removes uses that are so old that the keys are no longer usable, also of issuers that no Receiver names now.
func (s *Issuers) sweep(now time.Time) {
	if now.Sub(s.swept) < sweepPause {
		return
	}
	s.swept = now
	for namespace, uses := range s.uses {
		for _, u := range uses {
			if now.Sub(u.last) >= keysUsable {
				s.forget(u)
			}
		}
		if len(uses) == 0 {
			delete(s.uses, namespace)
		}
	}
}

// allow reports whether the namespace may fetch the issuer's keys now, and counts the fetch if so.
func (u *use) allow() bool {
	s := u.issuers
	s.mu.Lock()
	defer s.mu.Unlock()
	now, ofHost := time.Now(), 0
	for _, other := range s.uses[u.namespace] {
		if other.host == u.host && other.paused(now) {
			ofHost++
		}
	}
	// A use that was evicted during the wait may have been replaced, and the new one could fetch as well.
	if s.uses[u.namespace][u.issuer.url] != u || ofHost >= maxHostFetches || !s.rates.Allow(u.namespace) {
		return false
	}
	u.asked = now
	return true
}
