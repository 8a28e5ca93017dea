package alerts

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

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
	for _, value := range d.loads.Range {
		l := value.(load)
		all.held, all.away, all.open = all.held+l.held, all.away+l.away, all.open+l.open
		all.destination, all.provider = earlier(all.destination, l.destination), earlier(all.provider, l.provider)
	}
	return all
}

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
