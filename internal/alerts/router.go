package alerts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"notifier/internal/event"
)

// EventSource hands out the accepted events, those of each namespace in stream order. A batch is done when route returns nil; after an
// error it is handed out again. Nobody waits for another namespace's event that is heavy.
type EventSource interface {
	Events(ctx context.Context, heavy func(*event.Record) bool, route func(ctx context.Context, batch []*event.Record) error) error
}

// DeliveryPublisher puts deliveries on the bus, in order; a delivery whose ID is there already is not put there again. It
// returns when all of them are stored, with those that became dead letters.
type DeliveryPublisher interface {
	PublishDeliveries(ctx context.Context, ds []event.Delivery) ([]event.Refused, error)
}

// publishChunk bounds the deliveries that are built before they are published: one batch of events may fan out to many Alerts.
const publishChunk = 1024

// RouterOptions wires a Router. All but Gate are required.
type RouterOptions struct {
	Events       EventSource
	Publisher    DeliveryPublisher
	Alerts       *Table
	Destinations *Destinations
	Reports      Reporter
	Recorder     Recorder
	// Lost is told of every delivery that was given up as its event was routed.
	Lost func(d *event.Delivery, label, reason string)
	// Gate, unless nil, is closed when the tables are complete. An event that was routed earlier would miss Alerts.
	Gate       <-chan struct{}
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

func (o RouterOptions) validate() error {
	var errs []error
	for name, missing := range map[string]bool{
		"Events": o.Events == nil, "Publisher": o.Publisher == nil, "Alerts": o.Alerts == nil,
		"Destinations": o.Destinations == nil, "Reports": o.Reports == nil, "Recorder": o.Recorder == nil,
		"Lost": o.Lost == nil, "Log": o.Log == nil, "Registerer": o.Registerer == nil,
	} {
		if missing {
			errs = append(errs, fmt.Errorf("alerts.RouterOptions: %s is nil", name))
		}
	}
	return errors.Join(errs...)
}

// Router turns events into deliveries.
type Router struct {
	RouterOptions
	metrics routeMetrics
	budget  *budget
	matched *activities
}

// NewRouter checks the options.
func NewRouter(o RouterOptions) (*Router, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Router{
		RouterOptions: o, metrics: newRouteMetrics(o.Registerer), budget: newBudget(time.Now), matched: newActivities(AlertMatched, o.Reports),
	}, nil
}

// Run routes events until ctx ends or the bus is lost.
func (r *Router) Run(ctx context.Context) error {
	if err := awaitGate(ctx, r.Gate); err != nil {
		return nil
	}
	return r.Events.Events(ctx, r.heavy, r.route)
}

// heavyMatch is from how many Alerts on that an event's routing is not waited for by other namespaces.
const heavyMatch = 16

// heavy reports whether it may take long to route an event: many Alerts are on its object, or the patterns of its namespace have taken
// their time.
func (r *Router) heavy(rec *event.Record) bool {
	o := rec.Event.InvolvedObject
	return r.Alerts.concerned(o) > heavyMatch || r.budget.busy(o.Namespace)
}

func awaitGate(ctx context.Context, gate <-chan struct{}) error {
	if gate == nil {
		return nil
	}
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// route publishes the deliveries of a batch. The bus calls it for one batch of a namespace at a time.
func (r *Router) route(ctx context.Context, batch []*event.Record) error {
	began := time.Now()
	r.turnBudget()
	ds := make([]event.Delivery, 0, min(len(batch), publishChunk))
	var selected []*Alert
	for _, rec := range batch {
		ds, selected = r.match(rec, ds, selected)
		if len(ds) >= publishChunk {
			if err := r.publish(ctx, ds); err != nil {
				return err
			}
			ds = ds[:0]
		}
	}
	if err := r.publish(ctx, ds); err != nil {
		return err
	}
	for _, rec := range batch {
		r.metrics.count(rec)
	}
	r.metrics.seconds.Observe(time.Since(began).Seconds())
	return nil
}

func (r *Router) publish(ctx context.Context, ds []event.Delivery) error {
	if len(ds) == 0 {
		return nil
	}
	refused, err := r.Publisher.PublishDeliveries(ctx, ds)
	if err != nil {
		return fmt.Errorf("publish deliveries: %w", err)
	}
	for _, f := range refused {
		r.Lost(f.Delivery, f.Label, f.Reason)
	}
	r.metrics.deliveries.Add(float64(len(ds)))
	return nil
}

// match appends the deliveries of one event. It returns the room for selected Alerts as well, for the next one.
func (r *Router) match(rec *event.Record, ds []event.Delivery, room []*Alert) (_ []event.Delivery, selected []*Alert) {
	o := rec.Event.InvolvedObject
	selected, considered := r.Alerts.Select(o, rec.Labels, room[:0])
	r.metrics.considered.Add(float64(considered))
	if len(selected) == 0 {
		return ds, selected
	}
	text := clip(rec.Event.Message)
	m := r.budget.begin(o.Namespace)
	for _, a := range selected {
		if !a.wants(rec.Event.Severity) || a.youngerThan(rec.Accepted) {
			continue
		}
		admitted, exact := a.admits(text, &m)
		if !exact {
			r.cutShort(a)
		}
		if admitted {
			ds = r.dispatch(rec, a, ds)
		}
	}
	r.metrics.patternSeconds.Add(r.budget.end(o.Namespace, &m).Seconds())
	return ds, selected
}

// dispatch appends the delivery of an event for an Alert that matches, unless its Provider is known not to take it.
func (r *Router) dispatch(rec *event.Record, a *Alert, ds []event.Delivery) []event.Delivery {
	r.metrics.matches.Inc()
	r.matched.note(a.Namespace, a.Name, a.UID, time.Now())
	dest := r.Destinations.Get(a.Namespace, a.Provider)
	providerUID, version := "", ""
	if dest != nil {
		if dest.Suspended || !takesStatusUpdates[dest.Type] && forStatusOnly(rec.Event) {
			r.metrics.skipped.Inc()
			return ds
		}
		if dest.Unsupported {
			r.Lost(&event.Delivery{
				ID: event.DeliveryID(rec, a.UID, a.Provider), Namespace: a.Namespace, Alert: a.Name, AlertUID: a.UID, Provider: a.Provider,
				Event: rec.Event,
			}, labelUnsupported, dest.NotReady)
			return ds
		}
		providerUID, version = dest.UID, dest.Version
	}
	// The record is shared by all Alerts: the copy gets a map of its own, so that no Alert sees another's metadata.
	e := rec.Event
	merged := mergeMetadata(rec.Event, a)
	e.Metadata = merged.metadata
	now := time.Now()
	if len(merged.conflicts) > 0 && a.conflictDue(now) {
		r.Recorder.Event(kindAlert, a.Namespace, a.Name, a.UID, warning, ReasonMetadataConflict,
			conflictMessage(rec.Event.InvolvedObject, merged.conflicts))
	}
	return append(ds, event.Delivery{
		ID:        event.DeliveryID(rec, a.UID, a.Provider),
		Order:     rec.Seq,
		Namespace: a.Namespace, Alert: a.Name, AlertUID: a.UID,
		Provider: a.Provider, ProviderUID: providerUID, Destination: version,
		Event: e, Authored: merged.authored,
		Routed:  now,
		Recheck: rec.Recheck, Known: rec.Known && !rec.Doubted,
	})
}

// maxConflictsTold bounds the keys that a message names; keys are as long as an event's sender likes.
const (
	maxConflictsTold = 10
	maxKeyTold       = 100
)

func conflictMessage(object event.ObjectReference, keys []string) string {
	more := ""
	if len(keys) > maxConflictsTold {
		more = fmt.Sprintf(" and %d more", len(keys)-maxConflictsTold)
		keys = keys[:maxConflictsTold]
	}
	told := make([]string, len(keys))
	for i, k := range keys {
		told[i] = fmt.Sprintf("%.*q", maxKeyTold, k)
	}
	return fmt.Sprintf("metadata of the event about %s and of this Alert disagree on %s%s; the controller's value is kept over "+
		"the summary, that over spec.eventMetadata, that over the object's annotations", object, strings.Join(told, ", "), more)
}

// cutShort reports that an Alert's patterns took too long and were not all evaluated.
func (r *Router) cutShort(a *Alert) {
	r.metrics.cutShort.Inc()
	if !r.budget.cut(a) {
		return
	}
	r.Log.Warn("patterns took too long, event passed unfiltered", "namespace", a.Namespace, "alert", a.Name)
	r.reportPatterns(a, StateFailing, ReasonPatternsTimed,
		"inclusionList and exclusionList of the namespace's Alerts took too long; meanwhile events pass unfiltered")
}

func (r *Router) turnBudget() {
	for _, a := range r.budget.turn() {
		r.reportPatterns(a, StateOK, ReasonPatternsInTime, "inclusionList and exclusionList are evaluated in time")
	}
}

func (r *Router) reportPatterns(a *Alert, s State, reason, message string) {
	h := Health{UID: a.UID, State: s, Reason: reason, Message: message, At: time.Now().UTC()}
	r.Reports.Report(healthKey(kindAlert, a.Namespace, a.Name), h.encode())
}
