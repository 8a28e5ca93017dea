package access

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// results count the results of one kind of review.
type results struct{ granted, refused, failed, over prometheus.Counter }

type metrics struct{ tokens, rights results }

func newMetrics(reg prometheus.Registerer) *metrics {
	with := promauto.With(reg)
	tokens := with.NewCounterVec(prometheus.CounterOpts{
		Name: "notifier_api_token_reviews_total", Help: "Tokens of the API's users that the Kubernetes API was asked about, by result.",
	}, []string{"result"})
	rights := with.NewCounterVec(prometheus.CounterOpts{
		Name: "notifier_api_right_reviews_total", Help: "Rights of the API's users that the Kubernetes API was asked about, by result.",
	}, []string{"result"})
	return &metrics{tokens: resultsOf(tokens), rights: resultsOf(rights)}
}

func resultsOf(v *prometheus.CounterVec) results {
	return results{
		granted: v.WithLabelValues("granted"), refused: v.WithLabelValues("refused"), failed: v.WithLabelValues("error"),
		over: v.WithLabelValues("over_budget"),
	}
}
