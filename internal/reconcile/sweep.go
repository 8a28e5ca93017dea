package reconcile

import (
	"context"
	"slices"
	"time"

	"notifier/internal/fair"
	"notifier/internal/reconcile/kube"
)

const (
	// sweepEvery is the interval between two searches for reports that are never replaced.
	sweepEvery = 30 * time.Second
	// maxSwept bounds the removed reports of each sort in one search.
	maxSwept = 300
)

// sweep removes from the feed, until ctx ends, the reports of ended replicas and about deleted objects.
func (r *Reconciler) sweep(ctx context.Context) {
	for fair.Sleep(ctx, sweepEvery) == nil {
		for _, key := range slices.Concat(r.deliveries.stale(ctx), r.health.stale(r.exists)) {
			if err := r.options.Health.Put(ctx, key, nil); err != nil {
				if ctx.Err() == nil {
					r.log.Warn("reports that nobody replaces are not removed yet", "error", err)
				}
				break
			}
		}
	}
}

// exists reports whether the object of a report exists.
func (r *Reconciler) exists(kind string, k kube.Key) bool {
	of, ok := r.kinds[feedKinds[kind]]
	if ok {
		_, ok = of.get(k)
	}
	return ok
}

// stale returns the keys of reports on objects that do not exist, and did not at the last call: this replica may see a report before its
// object. Nothing replaces such a report, since a deleted object has no further webhooks or events.
func (t *healthTable) stale(exists func(kind string, k kube.Key) bool) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var keys []string
	for key, r := range t.reports {
		kind, k, _ := about(key)
		gone := !exists(kind, k)
		if gone && r.suspect && len(keys) < maxSwept {
			keys = append(keys, key)
		}
		r.suspect = gone
		t.reports[key] = r
	}
	return keys
}
