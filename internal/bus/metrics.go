package bus

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the metrics of the bus. The label "stream" has the names of the streams as its only values, for syncs those of syncedStreams.
type metrics struct {
	bytes, messages *prometheus.GaugeVec
	oldest          *prometheus.GaugeVec
	unrouted        prometheus.Gauge
	unread          prometheus.Gauge
	publishErrors   *prometheus.CounterVec
	syncs           *prometheus.CounterVec
	syncSeconds     *prometheus.HistogramVec
	deadLetters     prometheus.Counter
	putAside        *prometheus.CounterVec
	folded          prometheus.Counter
}

func newMetrics(r prometheus.Registerer, isWorker func() bool) (*metrics, error) {
	stream := []string{"stream"}
	m := &metrics{
		bytes: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "notifier_stream_bytes", Help: "Bytes that a stream keeps.",
		}, stream),
		messages: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "notifier_stream_messages", Help: "Messages that a stream keeps. In DELIVERIES and TRIGGERS these are the pending ones.",
		}, stream),
		oldest: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "notifier_stream_oldest_age_seconds", Help: "Age of the oldest message of a stream. In DELIVERIES and TRIGGERS it waits to be acknowledged.",
		}, stream),
		unrouted: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "notifier_events_unrouted", Help: "Events that were accepted and not routed yet.",
		}),
		unread: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "notifier_events_unread_by_receivers",
			Help: "Events that were accepted and not looked at yet for Receivers of type event.",
		}),
		publishErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "notifier_publish_errors_total", Help: "Publishes that a stream did not confirm.",
		}, stream),
		syncs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "notifier_stream_syncs_total", Help: "Syncs of a stream of the embedded server, each for all publishes that wait for it.",
		}, stream),
		syncSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "notifier_stream_sync_seconds", Help: "Time that a sync of a stream of the embedded server took.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
		}, stream),
		deadLetters: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "notifier_dead_letters_total", Help: "Messages that ended among the dead letters.",
		}),
		putAside: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "notifier_messages_put_aside_total",
			Help: "Messages of a stream that could not be handled and became dead letters: not in the form of the stream, or the end of the process each time.",
		}, stream),
		folded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "notifier_triggers_folded_total",
			Help: "Triggers that were confirmed without a write of their own: one like them waits on disk for its turn, or goes there for both.",
		}),
	}
	m.showAll()
	var errs []error
	for _, c := range []prometheus.Collector{
		m.bytes, m.messages, m.oldest, m.unrouted, m.unread, m.publishErrors, m.syncs, m.syncSeconds, m.deadLetters, m.putAside, m.folded,
		workerGauge(isWorker),
	} {
		errs = append(errs, r.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register metrics of the bus: %w", err)
	}
	return m, nil
}

// showAll has each stream in the metrics before anything is counted for it.
func (m *metrics) showAll() {
	for _, name := range allStreams {
		m.bytes.WithLabelValues(name)
		m.messages.WithLabelValues(name)
		m.oldest.WithLabelValues(name)
		m.publishErrors.WithLabelValues(name)
	}
	for _, name := range []string{streamEvents, streamDeliveries, streamTriggers} {
		m.putAside.WithLabelValues(name)
	}
	for _, name := range syncedStreams() {
		m.syncs.WithLabelValues(name)
		m.syncSeconds.WithLabelValues(name)
	}
}

// workerGauge returns the gauge that says which replica is the worker.
func workerGauge(isWorker func() bool) prometheus.GaugeFunc {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "notifier_worker", Help: "1 on the replica that routes, delivers, applies, watches and writes status.",
	}, func() float64 {
		if isWorker() {
			return 1
		}
		return 0
	})
}

// syncBegun counts a sync of a stream, and returns what records its time when it has ended. A sync that hangs is counted and has no time.
func (m *metrics) syncBegun(stream string) (ended func()) {
	m.syncs.WithLabelValues(stream).Inc()
	start := time.Now()
	return func() { m.syncSeconds.WithLabelValues(stream).Observe(time.Since(start).Seconds()) }
}

func (m *metrics) observe(states map[string]jetstream.StreamState, unrouted, unread uint64) {
	for name, state := range states {
		m.bytes.WithLabelValues(name).Set(float64(state.Bytes))
		m.messages.WithLabelValues(name).Set(float64(state.Msgs))
		age := 0.0
		if state.Msgs > 0 {
			age = max(0, time.Since(state.FirstTime).Seconds())
		}
		m.oldest.WithLabelValues(name).Set(age)
	}
	m.unrouted.Set(float64(unrouted))
	m.unread.Set(float64(unread))
}
