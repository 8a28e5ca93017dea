package reconcile

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	v1 "notifier/api/v1"
	"notifier/internal/reconcile/kube"
)

// kinds are the reconciled kinds. The labels of the metrics are kinds, the stages and kube.Results, and no others.
var kinds = []string{v1.ReceiverKind, v1.AlertKind, v1.ProviderKind}

// The two queues of a kind.
const (
	stageCompile = "compile"
	stageStatus  = "status"
)

type metrics struct {
	duration   *prometheus.HistogramVec
	results    *prometheus.CounterVec
	registerer prometheus.Registerer
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "notifier_reconcile_duration_seconds", Help: "Time that one reconcile of an object took.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9),
		}, []string{"kind", "stage"}),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "notifier_reconcile_total", Help: "Reconciles by result.",
		}, []string{"kind", "stage", "result"}),
		registerer: r,
	}
	r.MustRegister(m.duration, m.results)
	for _, kind := range kinds {
		for _, stage := range []string{stageCompile, stageStatus} {
			m.duration.WithLabelValues(kind, stage)
			for _, result := range kube.Results() {
				m.results.WithLabelValues(kind, stage, string(result))
			}
		}
	}
	return m
}

// observe returns a function that counts one reconcile of a queue.
func (m *metrics) observe(kind, stage string) func(kube.Result, time.Duration) {
	duration := m.duration.WithLabelValues(kind, stage)
	return func(result kube.Result, took time.Duration) {
		duration.Observe(took.Seconds())
		m.results.WithLabelValues(kind, stage, string(result)).Inc()
	}
}

// depth registers a gauge of the number of keys that wait in a queue.
func (m *metrics) depth(kind, stage string, length func() int) {
	m.registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "notifier_reconcile_queue_depth", Help: "Objects that wait to be reconciled.",
		ConstLabels: prometheus.Labels{"kind": kind, "stage": stage},
	}, func() float64 { return float64(length()) }))
}
