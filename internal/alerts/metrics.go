package alerts

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

type routeMetrics struct {
	events                       *prometheus.CounterVec // by source
	considered                   prometheus.Counter
	matches, skipped, deliveries prometheus.Counter
	cutShort, patternSeconds     prometheus.Counter
	seconds                      prometheus.Histogram
}

// count counts an event by its source.
func (m routeMetrics) count(rec *event.Record) {
	source := event.SourcePost
	if rec.Source == event.SourceWatch {
		source = event.SourceWatch
	}
	m.events.WithLabelValues(string(source)).Inc()
}

func newRouteMetrics(r prometheus.Registerer) routeMetrics {
	f := promauto.With(r)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := routeMetrics{
		events: f.NewCounterVec(prometheus.CounterOpts{
			Name: "notifier_routed_events_total", Help: "Events whose deliveries were dispatched, by where they came from.",
		}, []string{"source"}),
		considered: counter("notifier_considered_total", "Pairs of an event and a source of an Alert that were compared."),
		matches:    counter("notifier_matched_total", "Pairs of an event and an Alert that matches it."),
		skipped:    counter("notifier_match_skipped_total", "Matches whose Provider is suspended or does not take such events."),
		deliveries: counter("notifier_routed_deliveries_total", "Deliveries dispatched to the queues of their Providers."),
		cutShort:   counter("notifier_pattern_timeouts_total", "Matches let pass because the namespace's time for patterns was spent."),
		patternSeconds: counter("notifier_pattern_seconds_total",
			"Time spent on the severity and patterns of the Alerts whose sources match."),
		seconds: f.NewHistogram(prometheus.HistogramOpts{
			Name: "notifier_route_batch_seconds", Help: "Time from a batch of events to its deliveries being in the queues of their Providers.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 8),
		}),
	}
	for _, source := range []event.Source{event.SourcePost, event.SourceWatch} {
		m.events.WithLabelValues(string(source))
	}
	return m
}

// Outcomes of a delivery's time in a Provider's queue.
const (
	outcomeSent    = "sent"    // accepted by the destination
	outcomeKnown   = "known"   // found in the history: sent before
	outcomeRetry   = "retry"   // failed, put on the schedule
	outcomeDead    = "dead"    // written to the dead letters
	outcomeSkipped = "skipped" // not for this type of Provider, or needless there
)

// Labels of dead letters beyond those of failed sends.
const (
	labelNone        = "none"
	labelPanic       = "panic"
	labelExpired     = "expired"
	labelOwnerGone   = "owner_gone"
	labelSuspended   = "suspended"
	labelUnsupported = "unsupported_type"
	labelUnverified  = "unverified"
)

// otherType is the label of every unknown type.
const otherType = "other"

type deliverMetrics struct {
	types       []string
	labels      []string
	outcomes    *prometheus.CounterVec
	sends       *prometheus.HistogramVec
	atCapacity  prometheus.Counter
	rescheduled prometheus.Counter
	replayed    prometheus.Counter
	busErrors   prometheus.Counter
}

func newDeliverMetrics(r prometheus.Registerer, types []string) deliverMetrics {
	f := promauto.With(r)
	return deliverMetrics{
		types:  append(slices.Clone(types), otherType),
		labels: append(provider.Labels(), labelNone, labelPanic, labelExpired, labelOwnerGone, labelSuspended, labelUnsupported, event.LabelQuota, labelUnverified, event.LabelTooLarge),
		outcomes: f.NewCounterVec(prometheus.CounterOpts{
			Name: "notifier_deliveries_total", Help: "Outcomes of deliveries by the Provider's type.",
		}, []string{"type", "outcome", "reason"}),
		sends: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "notifier_send_seconds", Help: "Duration of sends by the Provider's type.",
			Buckets: prometheus.ExponentialBuckets(0.005, 3, 9),
		}, []string{"type"}),
		atCapacity: f.NewCounter(prometheus.CounterOpts{
			Name: "notifier_sends_at_capacity_total", Help: "Looks for a place for a send while its namespace, or the process, had as many under way as it may.",
		}),
		rescheduled: f.NewCounter(prometheus.CounterOpts{
			Name: "notifier_delivery_waits_total", Help: "Deliveries put on the schedule without an attempt, to wait for their turn.",
		}),
		replayed: f.NewCounter(prometheus.CounterOpts{
			Name: "notifier_dead_letters_replayed_total", Help: "Dead letters published anew after their Provider was mended.",
		}),
		busErrors: f.NewCounter(prometheus.CounterOpts{
			Name: "notifier_delivery_bus_errors_total", Help: "Failed writes and look-ups on the bus that were tried again.",
		}),
	}
}

// begin creates the series of a type at zero, so that a first failure shows as an increase. Types that no Provider has get none.
func (m deliverMetrics) begin(providerType string) {
	t := m.typeOf(&Destination{Type: providerType})
	m.sends.WithLabelValues(t)
	for _, outcome := range []string{outcomeSent, outcomeKnown, outcomeSkipped} {
		m.outcomes.WithLabelValues(t, outcome, labelNone)
	}
	for _, l := range m.labels {
		m.outcomes.WithLabelValues(t, outcomeRetry, l)
		m.outcomes.WithLabelValues(t, outcomeDead, l)
	}
}

// typeOf keeps the label set closed: a type is tenant input.
func (m deliverMetrics) typeOf(d *Destination) string {
	if d == nil || !slices.Contains(m.types, d.Type) {
		return otherType
	}
	return d.Type
}

func (m deliverMetrics) count(d *Destination, outcome, label string) {
	if !slices.Contains(m.labels, label) {
		label = provider.LabelOther
	}
	m.outcomes.WithLabelValues(m.typeOf(d), outcome, label).Inc()
}

// registerGauges registers the gauges of the shards that are served here.
func (d *Deliverer) registerGauges() {
	gauge := func(name, help string, labels prometheus.Labels, value func() float64) {
		promauto.With(d.Registerer).NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, value)
	}
	name, help := "notifier_delivery_queue_depth", "Deliveries of the shards owned here, in memory and on the schedule."
	gauge(name, help, prometheus.Labels{"place": "memory"}, func() float64 { return float64(d.load().held) })
	gauge(name, help, prometheus.Labels{"place": "schedule"}, func() float64 { return float64(d.load().away) })
	name, help = "notifier_oldest_undelivered_seconds", "Age of the delivery that has waited longest, attempts and waits included: for a "+
		"destination, or for a Provider that is missing or not ready."
	gauge(name, help, prometheus.Labels{"waits_for": "destination"}, func() float64 { return age(d.load().destination) })
	gauge(name, help, prometheus.Labels{"waits_for": "provider"}, func() float64 { return age(d.load().provider) })
	gauge("notifier_breakers_open", "Destinations that are not sent to, but for probes, after repeated failures.", nil,
		func() float64 { return float64(d.load().open) })
	gauge("notifier_delivery_held_bytes", "Bytes of the events that are held in memory for their destinations.", nil,
		func() float64 { return float64(d.heldBytes.Load()) })
}

// load is the state of a shard at its last tick, for the gauges.
type load struct {
	// held and away count the deliveries in memory and on the schedule. open counts the open breakers.
	held, away, open int
	// destination and provider are when the longest-waiting deliveries began to wait: for a destination, and for a Provider that cannot be
	// used. A zero time means none.
	destination, provider time.Time
}

// load returns the load of all shards that are served here.
func (d *Deliverer) load() (all load) {
	for _, s := range d.shards.all() {
		l := s.load.Load()
		if l == nil {
			continue
		}
		all.held, all.away, all.open = all.held+l.held, all.away+l.away, all.open+l.open
		all.destination, all.provider = earlier(all.destination, l.destination), earlier(all.provider, l.provider)
	}
	return all
}

// age returns the seconds since a time, 0 for a zero time.
func age(since time.Time) float64 {
	if since.IsZero() {
		return 0
	}
	return time.Since(since).Seconds()
}

// earlier returns the earlier of two times, ignoring a zero time.
func earlier(t, u time.Time) time.Time {
	if t.IsZero() || !u.IsZero() && u.Before(t) {
		return u
	}
	return t
}
