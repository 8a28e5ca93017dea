package secrets

import "github.com/prometheus/client_golang/prometheus"

type metrics struct{ held, watches prometheus.Gauge }

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "notifier_secrets_held", Help: "Secrets that Receivers and Providers refer to.",
		}),
		watches: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "notifier_secret_watches", Help: "Secrets that are being watched.",
		}),
	}
	r.MustRegister(m.held, m.watches)
	return m
}
