package api

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	watches  prometheus.Gauge
	panics   prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	with := promauto.With(reg)
	return &metrics{
		requests: with.NewCounterVec(prometheus.CounterOpts{
			Name: "notifier_api_requests_total", Help: "Requests of the API by route and status.",
		}, []string{"route", "code"}),
		seconds: with.NewHistogramVec(prometheus.HistogramOpts{
			Name: "notifier_api_request_seconds", Help: "How long answers of the API took, by route. A watch is one answer.",
			Buckets: []float64{.001, .005, .025, .1, .5, 2, 10},
		}, []string{"route"}),
		watches: with.NewGauge(prometheus.GaugeOpts{Name: "notifier_api_watches", Help: "Watches of the API that are open."}),
		panics: with.NewCounter(prometheus.CounterOpts{
			Name: "notifier_api_panics_total", Help: "Requests of the API that a fault of this program ended.",
		}),
	}
}

// noRoute is the label of requests outside the API's routes, including those of the page.
const noRoute = "other"

// count counts an answer. Routes and statuses are few; a path is never a label.
func (m *metrics) count(route string, status int, took time.Duration) {
	if route == "" || route[len(route)-1] == '*' {
		route = noRoute
	}
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route).Observe(took.Seconds())
}
