package receiver

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"notifier/internal/receiver/verify"
)

// noType is the type label of a request whose path is unknown.
const noType = "none"

// hookResults are all result labels of the webhook endpoint.
var hookResults = []string{
	"accepted", "busy", "duplicate", "encoding", "event", "failures_over_budget", "folded", "gone", "issuer", "method", "panic",
	"payload", "ping", "quota", "starting", "suspended", "too_large", "unauthentic", "unavailable", "unknown", "unknown_over_budget",
	"unreadable",
}

// webhookMetrics creates all label sets at the start: type and result are closed sets.
type webhookMetrics struct {
	webhooks map[string]map[string]prometheus.Counter // type → result
	filters  prometheus.Counter
	panics   prometheus.Counter
}

func newWebhookMetrics(reg prometheus.Registerer, inFlight *atomic.Int64) *webhookMetrics {
	with := promauto.With(reg)
	vec := with.NewCounterVec(prometheus.CounterOpts{
		Name: "notifier_webhooks_total",
		Help: "Webhook requests by receiver type and result.",
	}, []string{"type", "result"})
	m := &webhookMetrics{
		webhooks: make(map[string]map[string]prometheus.Counter),
		filters: with.NewCounter(prometheus.CounterOpts{
			Name: "notifier_webhook_filter_failures_total",
			Help: "Accepted webhooks for which a filter of the Receiver failed.",
		}),
		panics: with.NewCounter(prometheus.CounterOpts{
			Name: "notifier_webhook_panics_total",
			Help: "Webhook requests that ended in a panic.",
		}),
	}
	for _, kind := range append(verify.Types(), noType) {
		m.webhooks[kind] = make(map[string]prometheus.Counter)
		for _, result := range hookResults {
			m.webhooks[kind][result] = vec.WithLabelValues(kind, result)
		}
	}
	with.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "notifier_webhooks_in_flight",
		Help: "Webhook requests on known paths that are being served.",
	}, func() float64 { return float64(inFlight.Load()) })
	return m
}

// count counts one request. Both labels are of the closed sets; a test checks that.
func (m *webhookMetrics) count(kind, result string) { m.webhooks[kind][result].Inc() }
