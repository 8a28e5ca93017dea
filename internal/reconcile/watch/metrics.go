package watch

import "github.com/prometheus/client_golang/prometheus"

// The ways in which a transition was recorded as published.
const (
	resultPublished = "published" // by an event of the watcher
	resultPosted    = "posted"    // by a POST about it
	resultKnown     = "known"     // by an event that was found on the bus after a change of worker or a crash
	resultLeft      = "left"      // not at all: the object left the state before it had settled
	resultBaseline  = "baseline"  // without an event, as the first seen state of the kind
)

type metrics struct {
	transitions *prometheus.CounterVec
	errors      prometheus.Counter
	waiting     prometheus.Gauge
	posts       prometheus.Gauge
	publishing  *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "notifier_watch_transitions_total",
			Help: "Transitions of Flux objects, by how they were published.",
		}, []string{"result"}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "notifier_watch_errors_total",
			Help: "Failed attempts to publish or record a transition; each is tried again.",
		}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "notifier_watch_transitions_waiting",
			Help: "Transitions that wait for a POST about them or for the bus.",
		}),
		posts: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "notifier_watch_posts",
			Help: "POSTs remembered because a transition may turn out to be covered by them.",
		}),
		publishing: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "notifier_watch_kind_publishing",
			Help: "Whether transitions of the kind are published by this replica.",
		}, []string{"kind"}),
	}
	for _, result := range []string{resultPublished, resultPosted, resultKnown, resultLeft, resultBaseline} {
		m.transitions.WithLabelValues(result)
	}
	for _, k := range kinds {
		m.publishing.WithLabelValues(k.Kind)
	}
	r.MustRegister(m.transitions, m.errors, m.waiting, m.posts, m.publishing)
	return m
}
