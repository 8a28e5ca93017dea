package apply

import "github.com/prometheus/client_golang/prometheus"

// The results of a trigger.
const (
	resultApplied   = "applied"
	resultFolded    = "folded"         // a newer trigger of the key replaced it
	resultNotFound  = "not_found"      // one of its objects does not exist
	resultRefused   = "refused"        // one of its objects was refused for too long
	resultNoMatch   = "no_match"       // the selector matches nothing
	resultOwnerGone = "owner_gone"     // its Receiver no longer exists
	resultRemoved   = "target_removed" // its Receiver no longer names the target
	resultReturned  = "returned"       // given back to the bus at the end of the term
)

// The results that are retried and never counted.
const (
	resultUnknown = "unknown" // the target cannot be resolved now
	resultUnseen  = "unseen"  // the Receiver or target may not have been seen yet
	resultBusy    = "busy"    // a search for a Receiver that asks cannot be made now
)

// The answers about a service account.
const (
	reviewAllowed = "allowed"
	reviewDenied  = "denied"
	reviewRefused = "refused" // the process may not act as the account
	reviewError   = "error"
)

// patchResults are the labels of the verdicts on writes.
var patchResults = map[verdict]string{
	applied: "ok", refused: "refused", gone: "not_found", conflicted: "conflict", failed: "error",
}

type metrics struct {
	patches  *prometheus.CounterVec
	triggers *prometheus.CounterVec
	shared   prometheus.Counter
	pending  prometheus.Gauge
	latency  prometheus.Histogram
	// faulty and reviews measure the questions before a write.
	faulty  prometheus.Gauge
	reviews *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		patches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "notifier_apply_patches_total",
			Help: "Reconcile requests sent to the Kubernetes API, by its answer.",
		}, []string{"result"}),
		triggers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "notifier_apply_triggers_total",
			Help: "Triggers taken from the bus, by what became of them.",
		}, []string{"result"}),
		shared: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "notifier_apply_patches_shared_total",
			Help: "Reconcile requests that were not sent because another trigger's by the same account came in time.",
		}),
		pending: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "notifier_apply_pending_triggers",
			Help: "Triggers held by this replica.",
		}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "notifier_apply_latency_seconds",
			Help:    "Time from the acceptance of a webhook to the answer to its reconcile request.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2, 5, 10, 30, 60, 300, 600},
		}),
	}
	m.faulty = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "notifier_impersonation_refused",
		Help: "1 while something, which /readyz names, keeps the process from writing as service accounts.",
	})
	m.reviews = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "notifier_access_reviews_total",
		Help: "Questions to the Kubernetes API about what service accounts may, by its answer.",
	}, []string{"result"})
	for _, result := range []string{reviewAllowed, reviewDenied, reviewRefused, reviewError} {
		m.reviews.WithLabelValues(result)
	}
	for _, label := range patchResults {
		m.patches.WithLabelValues(label)
	}
	for _, result := range []string{
		resultApplied, resultFolded, resultNotFound, resultRefused, resultNoMatch, resultOwnerGone, resultRemoved, resultReturned,
	} {
		m.triggers.WithLabelValues(result)
	}
	r.MustRegister(m.patches, m.triggers, m.shared, m.pending, m.latency, m.faulty, m.reviews)
	return m
}
