package bus

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// recountAfter is the least time between two counts of a namespace that is near its wall, countTrust how long a count of
	// one that is far from it is believed: another replica may have routed meanwhile. Counting what is large takes long, so it is
	// done for no more than a part of the time, recountShare.
	recountAfter = time.Second
	countTrust   = time.Minute
	recountShare = 20
	// maxCounts bounds the memory of counts. Beyond it the outdated ones go; what is forgotten is counted again.
	maxCounts = 10_000
	// leastQuota is what a namespace may have pending however full the stream is.
	leastQuota = 16
	// wallFactor is how much more than its quota a namespace may have for a moment: the deliverer gives up what is too much, the oldest
	// first. What comes faster than that stops at the wall.
	wallFactor = 2
	// namespaceShare is the part of the stream's budget that one namespace's deliveries may fill, unknownShare the part of the wall that
	// events may fill which their objects do not bear out: a forger must not use up what genuine events need (invariant E9).
	namespaceShare = 8
	unknownShare   = 2
)

// quota bounds the pending deliveries of each namespace, and in it those of each Provider: beyond the namespace's wall a Provider may
// have no more than an even share, so a Provider that has little always has room (invariant E5). The stream's own subjects are the
// truth; between two counts of them what this process publishes is added, so the count is never too low by its own doing.
type quota struct {
	bus   *Bus
	limit int
	now   func() time.Time

	mu     sync.Mutex
	counts map[string]*count
}

// tally is how much is pending. Its bytes are estimated: known for what was admitted here, in proportion after a count.
type tally struct {
	n     int
	bytes int64
}

// count is what is pending of a namespace.
type count struct {
	tally
	providers map[string]tally
	at        time.Time
	took      time.Duration
}

func newQuota(b *Bus) *quota {
	return &quota{bus: b, limit: wallFactor * b.opts.NamespaceQuota, now: time.Now, counts: map[string]*count{}}
}

// admit counts one delivery of size bytes to a Provider of the namespace and reports whether there is room for it. known says that its
// event is borne out by its object.
func (q *quota) admit(ctx context.Context, namespace, provider string, size int64, known bool) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	wall := tally{q.effective(), q.bus.opts.Budgets.Deliveries / namespaceShare}
	c, found := q.counts[namespace]
	if !found || c.isOld(q.now().Sub(c.at), wall.n) {
		fresh, err := q.recount(ctx, namespace, c)
		if err != nil {
			return false, err
		}
		c = fresh
		q.remember(namespace, c)
	}
	p := c.providers[provider]
	share := wall
	if !known {
		share.n = max(1, share.n/unknownShare)
	}
	if !c.hasRoom(size, share) {
		n := len(c.providers)
		if p.n == 0 {
			n++
		}
		share.n, share.bytes = max(1, share.n/n), share.bytes/int64(n)
		if !p.hasRoom(size, share) {
			return false, nil
		}
	}
	c.n, c.bytes = c.n+1, c.bytes+size
	c.providers[provider] = tally{p.n + 1, p.bytes + size}
	q.bus.stats.queued.Add(size)
	return true, nil
}

// hasRoom reports whether one more of size bytes stays within a bound. One always fits.
func (t tally) hasRoom(size int64, bound tally) bool {
	return t.n == 0 || t.n < bound.n && t.bytes+size <= bound.bytes
}

func (c *count) isOld(age time.Duration, wall int) bool {
	return age > countTrust || c.n >= wall/2 && age > max(recountAfter, recountShare*c.took)
}

func (q *quota) remember(namespace string, c *count) {
	if _, found := q.counts[namespace]; !found && len(q.counts) >= maxCounts {
		for other, old := range q.counts {
			if q.now().Sub(old.at) > recountAfter || len(q.counts) >= 2*maxCounts {
				delete(q.counts, other)
			}
		}
	}
	q.counts[namespace] = c
}

// effective is the wall, or as many average messages as the stream's budget has room for once it is half full. With such a
// threshold any number of floods together leave room: each may only have as much as is free.
func (q *quota) effective() int {
	bytes, msgs := q.bus.stats.deliveries()
	budget := q.bus.opts.Budgets.Deliveries
	if bytes < budget/2 {
		return q.limit
	}
	free := max(budget-bytes, 0)
	return min(q.limit, max(leastQuota, int(free/max(bytes/max(msgs, 1), 1))))
}

// recount counts a namespace's deliveries, due or on the schedule, from the stream's subjects.
func (q *quota) recount(ctx context.Context, namespace string, old *count) (*count, error) {
	began := q.now()
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	info, err := q.bus.streams[streamDeliveries].Info(ctx, jetstream.WithSubjectFilter("notifier.*.*."+token(namespace)+".>"))
	if err != nil {
		return nil, fmt.Errorf("count pending deliveries: %w", err)
	}
	average := int64(0)
	if old != nil && old.n > 0 {
		average = old.bytes / int64(old.n)
	}
	c := &count{providers: map[string]tally{}}
	for subject, n := range info.State.Subjects {
		provider := providerOf(subject)
		p := c.providers[provider]
		p.n += int(n)
		p.bytes = average * int64(p.n)
		c.providers[provider] = p
		c.n += int(n)
	}
	c.bytes, c.at = average*int64(c.n), q.now()
	c.took = c.at.Sub(began)
	return c, nil
}

// providerOf returns the Provider that a subject of DELIVERIES names.
func providerOf(subject string) string {
	t := strings.SplitN(subject, ".", deliverLength+1)
	if len(t) < deliverLength {
		return ""
	}
	provider, err := untoken(t[deliverLength-1])
	if err != nil {
		return ""
	}
	return provider
}

// pending counts a namespace's deliveries, due or on the schedule.
func (b *Bus) pending(ctx context.Context, namespace string) (int, error) {
	c, err := b.quota.recount(ctx, namespace, nil)
	if err != nil {
		return 0, err
	}
	return c.n, nil
}
