package oidc

import (
	"net/url"
	"time"

	"golang.org/x/time/rate"

	"notifier/internal/fair"
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
	// sweepPause is the least time between two searches for issuers that a namespace has not used for keysUsable.
	sweepPause = time.Minute
)

// share is one namespace's part of Issuers, whose lock protects it.
type share struct {
	issuers *Issuers
	places  *fair.Capacity // of fetches
	rate    *rate.Limiter
	uses    map[string]*use // by URL
}

// use is one namespace's use of one issuer, whose keys it fetches.
type use struct {
	share  *share
	issuer *issuer
	host   string
	// last is the time of the namespace's last token of the issuer, asked that of its last fetch.
	last, asked time.Time
}

// paused reports whether the namespace fetched the issuer's keys within fetchPause. Meanwhile the issuer is not evicted, since it could be
// asked again without a pause. A fetch in progress is within that time.
func (u *use) paused(now time.Time) bool { return !u.asked.IsZero() && now.Sub(u.asked) < fetchPause }

// use returns the use of an issuer by a namespace with a token of it, nil if the namespace has no capacity for it.
func (s *Issuers) use(namespace, address string) *use {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.sweep(now)
	n := s.shares[namespace]
	if n == nil {
		n = &share{
			issuers: s, places: fair.NewCapacity(fetchesAtOnce), rate: rate.NewLimiter(fetchRate, fetchBurst), uses: map[string]*use{},
		}
		s.shares[namespace] = n
	}
	u := n.uses[address]
	if u == nil {
		if len(n.uses) >= maxIssuers && !s.forgetOne(n, now) {
			return nil
		}
		i := s.byURL[address]
		if i == nil {
			i = &issuer{url: address, client: s.client}
			s.byURL[address] = i
		}
		i.users++
		u = &use{share: n, issuer: i}
		if parsed, err := url.Parse(address); err == nil {
			u.host = parsed.Host
		}
		n.uses[address] = u
	}
	u.last = now
	return u
}

// forgetOne evicts an issuer from a share, and reports whether one could be evicted.
func (s *Issuers) forgetOne(n *share, now time.Time) bool {
	var oldest *use
	for _, u := range n.uses {
		if !u.paused(now) && (oldest == nil || u.last.Before(oldest.last)) {
			oldest = u
		}
	}
	if oldest == nil {
		return false
	}
	s.forget(n, oldest)
	return true
}

// forget ends a namespace's use of an issuer, and removes the issuer with its last use.
func (s *Issuers) forget(n *share, u *use) {
	delete(n.uses, u.issuer.url)
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
	for namespace, n := range s.shares {
		for _, u := range n.uses {
			if now.Sub(u.last) >= keysUsable {
				s.forget(n, u)
			}
		}
		if len(n.uses) == 0 {
			delete(s.shares, namespace)
		}
	}
}

// allow reports whether the namespace may fetch the issuer's keys now, and counts the fetch if so.
func (u *use) allow() bool {
	n := u.share
	n.issuers.mu.Lock()
	defer n.issuers.mu.Unlock()
	now, ofHost := time.Now(), 0
	for _, other := range n.uses {
		if other.host == u.host && other.paused(now) {
			ofHost++
		}
	}
	// A use that was evicted during the wait may have been replaced, and the new one could fetch as well.
	if n.uses[u.issuer.url] != u || ofHost >= maxHostFetches || !n.rate.AllowN(now, 1) {
		return false
	}
	u.asked = now
	return true
}
