package reconcile

import (
	"context"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	v1 "notifier/api/v1"
	"notifier/internal/fair"
	"notifier/internal/reconcile/kube"
)

const (
	// sweepEvery is the interval between two searches for reports that are never replaced.
	sweepEvery = 30 * time.Second
	// maxSwept bounds the removed reports in one search. At that rate they are removed faster than a tenant causes them that makes and deletes
	// Receivers: by refused writes, 200 a second with the default of --trigger-qps, and by reviews of rights and webhooks, 10 a second each.
	maxSwept = 10_000
	// maxEnded bounds the ended conditions in one search.
	maxEnded = 300
	// unreportedFor is how long a condition may be without its report after the feed was read. In that time a new worker reports what it
	// finds: it reviews the rights of service accounts, and refused writes are tried again.
	unreportedFor = 10 * time.Minute
)

// reportedConditions are those that the feed's reports about Receivers begin and end, by the kind of the report.
var reportedConditions = map[string]string{v1.ReceiverKind: v1.WriteDeniedCondition, loopKind: v1.LoopDetectedCondition}

// sweep removes from the feed, until ctx ends, the reports of ended replicas and about deleted objects. It ends the conditions that have no
// report.
func (r *Reconciler) sweep(ctx context.Context) {
	for fair.Sleep(ctx, sweepEvery) == nil {
		for _, key := range r.stale(ctx) {
			if !r.leads() {
				return // its cache may be from before what another worker has reported
			}
			if kind, k, replica, _ := about(key); replica == "" && r.exists(feedKinds[kind], k) {
				continue // it was made while others were removed, and so may the report have been
			}
			if err := r.options.Health.Put(ctx, key, nil); err != nil {
				if ctx.Err() == nil {
					r.log.Warn("reports that nobody replaces are not removed yet", "error", err)
				}
				break
			}
		}
		r.endUnreported(ctx)
	}
}

// endUnreported ends the conditions of Receivers whose reports are not in the feed, at most maxEnded. The reports were in another NATS, or on
// a volume that was lost, and nothing else would end the conditions.
func (r *Reconciler) endUnreported(ctx context.Context) {
	if !r.health.older(unreportedFor) {
		return
	}
	left := maxEnded
	for _, o := range r.receivers.objects.All() {
		for kind, condition := range reportedConditions {
			if !meta.IsStatusConditionTrue(*o.Conditions(), condition) {
				continue
			}
			key := kind + "/" + kube.KeyOf(o).String()
			if r.health.has(key) {
				continue
			}
			if left--; left < 0 {
				return
			}
			value, err := r.options.Health.Get(ctx, key)
			if err != nil {
				return // the next search asks again
			}
			if value == nil {
				r.health.end(key, kind)
				r.receivers.restate(kube.KeyOf(o))
			}
		}
	}
}

// stale returns the keys of reports on objects that do not exist and of replicas that ended, at most maxSwept. Nothing replaces such a report.
// Only a report that was so at the last call too is returned: a replica may have lost its connection for a moment, and this one may see a
// report before its object.
func (r *Reconciler) stale(ctx context.Context) (keys []string) {
	t := r.health
	t.mu.RLock()
	lives := maps.Clone(t.replicas)
	t.mu.RUnlock()
	for replica := range lives {
		lives[replica] = r.options.Alive(ctx, replica)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.replicas)
	for key, report := range t.reports {
		kind, k, replica, _ := about(key)
		stale := !r.exists(feedKinds[kind], k)
		if replica != "" {
			alive, asked := lives[replica]
			stale = stale || asked && !alive
			t.replicas[replica] = true
		}
		if stale && report.suspect && len(keys) < maxSwept {
			keys = append(keys, key)
		}
		report.suspect = stale
		t.reports[key] = report
	}
	return keys
}

// exists reports whether an object of a kind exists.
func (r *Reconciler) exists(kind string, k kube.Key) bool {
	of, ok := r.kinds[kind]
	if ok {
		_, ok = of.get(k)
	}
	return ok
}
