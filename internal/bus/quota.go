package bus

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// recountAfter is the least time between two counts of a namespace that is near its quota, countTrust how long a count of
	// one that is far from it is believed: another replica may have routed meanwhile.
	recountAfter = time.Second
	countTrust   = time.Minute
	// maxCounts bounds the memory of counts. Beyond it the outdated ones go; what is forgotten is counted again.
	maxCounts = 10_000
	// leastQuota is what a namespace may have pending however full the stream is.
	leastQuota = 16
	// namespaceShare is the part of the stream's budget that one namespace's deliveries may fill, unknownShare the part of its
	// quota that events may fill whose object nobody knows: a forger must not use up what genuine events need (invariant E9).
	namespaceShare = 8
	unknownShare   = 4
)

// quota bounds the pending deliveries of each namespace. The stream's own subjects are the truth; between two counts of them
// what this process publishes is added, so the count is never too low by its own doing.
type quota struct {
	bus   *Bus
	limit int
	now   func() time.Time

	mu     sync.Mutex
	counts map[string]count
}

// count is what is pending of a namespace. Its bytes are estimated: known for what was admitted here, in proportion after a count.
type count struct {
	n     int
	bytes int64
	at    time.Time
}

func newQuota(b *Bus) *quota {
	return &quota{bus: b, limit: b.opts.NamespaceQuota, now: time.Now, counts: map[string]count{}}
}

// admit counts one delivery of size bytes for the namespace and reports whether it is within the quota. known says that its event
// is about an object that the cluster has.
func (q *quota) admit(ctx context.Context, namespace string, size int64, known bool) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	limit := q.effective()
	if !known {
		limit = max(1, limit/unknownShare)
	}
	c, found := q.counts[namespace]
	age := q.now().Sub(c.at)
	if !found || age > countTrust || c.n >= limit/2 && age > recountAfter {
		n, err := q.bus.pending(ctx, namespace)
		if err != nil {
			return false, err
		}
		c = count{n: n, bytes: c.bytes / int64(max(c.n, 1)) * int64(n), at: q.now()}
	}
	ok := c.n < limit && (c.n == 0 || c.bytes+size <= q.bus.opts.Budgets.Deliveries/namespaceShare)
	if ok {
		c.n++
		c.bytes += size
		q.bus.stats.queued.Add(size)
	}
	q.remember(namespace, c)
	return ok, nil
}

func (q *quota) remember(namespace string, c count) {
	if _, found := q.counts[namespace]; !found && len(q.counts) >= maxCounts {
		for other, old := range q.counts {
			if q.now().Sub(old.at) > recountAfter || len(q.counts) >= 2*maxCounts {
				delete(q.counts, other)
			}
		}
	}
	q.counts[namespace] = c
}

// effective is the quota, or as many average messages as the stream's budget has room for once it is half full. With such a
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

// pending counts a namespace's deliveries, due or on the schedule, from the stream's subjects.
func (b *Bus) pending(ctx context.Context, namespace string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	info, err := b.streams[streamDeliveries].Info(ctx, jetstream.WithSubjectFilter("notifier.*.*."+token(namespace)+".>"))
	if err != nil {
		return 0, fmt.Errorf("count pending deliveries: %w", err)
	}
	total := 0
	for _, n := range info.State.Subjects {
		total += int(n)
	}
	return total, nil
}
