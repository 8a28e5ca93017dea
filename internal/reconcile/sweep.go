package reconcile

import (
	"context"
	"slices"
	"time"

	v1 "notifier/api/v1"
	"notifier/internal/reconcile/kube"
)

const (
	// sweepEvery is how often reports are looked for that nobody will replace any more.
	sweepEvery = 30 * time.Second
	// maxSwept bounds how many of each sort one look removes.
	maxSwept = 300
)

// sweep removes from the feed, until ctx ends, the reports of replicas and about Receivers that are no more.
func (r *Reconciler) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, key := range slices.Concat(r.deliveries.stale(), r.health.stale(v1.ReceiverKind, r.deliveries.exists)) {
			if err := r.options.Health.Put(ctx, key, nil); err != nil {
				if ctx.Err() == nil {
					r.log.Warn("reports that nobody replaces are not removed yet", "error", err)
				}
				break
			}
		}
	}
}

// stale returns the keys of reports on objects of a kind that do not exist, and did not when it was last called: this replica may
// learn of an object later than of a report on it. Who refused a Receiver's writes hears of it only with its next webhook, and one
// that is deleted gets none.
func (t *healthTable) stale(kind string, exists func(kube.Key) bool) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var keys []string
	for key, r := range t.reports {
		of, k, ok := about(key)
		if !ok || !slices.Contains(reportKinds(kind), of) {
			continue
		}
		gone := !exists(k)
		if gone && r.suspect && len(keys) < maxSwept {
			keys = append(keys, key)
		}
		r.suspect = gone
		t.reports[key] = r
	}
	return keys
}
