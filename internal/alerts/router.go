package alerts

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"notifier/internal/alerts/filter"
	"notifier/internal/event"
	"notifier/internal/fair"
	"notifier/internal/options"
)

// EventSource hands out the accepted events.
type EventSource interface {
	// Events calls handler with events, those of each namespace in stream order, until ctx ends. An event stays open until it is
	// acknowledged. Open events are handed out again to the next reader when ctx ends, and to this one after an error.
	Events(ctx context.Context, handler event.Handler) error
}

// Dispatcher sends deliveries to their destinations.
type Dispatcher interface {
	// Dispatch takes deliveries in, those of an event after those of earlier events. Each is acknowledged when it is sent, waits on the bus,
	// or is a dead letter. Dispatch may change the order of ds, and keeps it. It returns an error only when ctx ends.
	Dispatch(ctx context.Context, ds []event.Message[event.Delivery]) error
	// Full reports whether so many deliveries of a namespace are in memory that its next events are to wait.
	Full(namespace string) bool
	// Begin begins a term of the router. During it, behind reports whether events of a namespace that were on the bus at the beginning are
	// not yet dispatched.
	Begin(behind func(namespace string) bool)
	// CaughtUp reports that behind has become false for a namespace or more.
	CaughtUp(ctx context.Context)
	// Spill asks for the deliveries of events up to a place in the stream to be acknowledged soon.
	Spill(ctx context.Context, order uint64)
	// Lost takes a delivery to dest that was given up as its event was routed.
	Lost(d *event.Delivery, dest *Destination, label, reason string)
}

// dispatchChunk bounds the deliveries that are made before they are dispatched: one batch of events may be for many Alerts.
const dispatchChunk = 1024

// RouterOptions wires a Router. All are required.
type RouterOptions struct {
	Events       EventSource
	Deliverer    Dispatcher
	Alerts       *Table
	Destinations *Destinations
	Reports      *Ledger
	Recorder     Recorder
	// Gate is closed when the tables are complete. An event that was routed earlier would miss Alerts.
	Gate       <-chan struct{}
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Router turns events into deliveries.
type Router struct {
	RouterOptions
	metrics routeMetrics
	budget  *filter.Budget
	// explaining is the budget of explanations, so that requests for them never have an event routed unfiltered. Explanations take turns for
	// each Alert, first by namespace.
	explaining *filter.Budget
	turns      *fair.Capacities[string]
}

// NewRouter returns a Router that is not running, or an error that joins the faults of the options.
func NewRouter(o RouterOptions) (*Router, error) {
	if err := options.Missing(map[string]bool{
		"Events": o.Events == nil, "Deliverer": o.Deliverer == nil, "Alerts": o.Alerts == nil, "Destinations": o.Destinations == nil,
		"Reports": o.Reports == nil, "Recorder": o.Recorder == nil, "Gate": o.Gate == nil, "Log": o.Log == nil, "Registerer": o.Registerer == nil,
	}); err != nil {
		return nil, fmt.Errorf("router options: %w", err)
	}
	return &Router{
		RouterOptions: o, metrics: newRouteMetrics(o.Registerer),
		budget: filter.NewBudget(1, time.Now), explaining: filter.NewBudget(explainPart, time.Now),
		turns: fair.NewCapacities[string](fair.NewCapacity(1), 1, 0),
	}, nil
}

// Run routes events until ctx ends or the bus is lost.
func (r *Router) Run(ctx context.Context) error {
	if !opened(ctx, r.Gate) {
		return nil
	}
	return r.Events.Events(ctx, event.Handler{
		Heavy: r.heavy, Full: r.Deliverer.Full, Handle: r.route, Begin: r.Deliverer.Begin, CaughtUp: r.Deliverer.CaughtUp,
		Spill: r.Deliverer.Spill,
	})
}

// heavyMatch is the number of Alerts above which other namespaces do not wait for the routing of an event.
const heavyMatch = 16

// heavy reports whether routing an event may take long: many Alerts select its object, or the patterns of its namespace have taken much
// time.
func (r *Router) heavy(rec *event.Record) bool {
	o := rec.Event.InvolvedObject
	n := r.Alerts.concerned(o)
	return n > heavyMatch || n > 0 && r.budget.Heavy(o.Namespace)
}

// opened waits until a gate is closed, and reports whether that came before the end of ctx.
func opened(ctx context.Context, gate <-chan struct{}) bool {
	select {
	case <-gate:
		return true
	case <-ctx.Done():
		return false
	}
}

// route dispatches the deliveries of a batch. The bus calls it for one batch of a namespace at a time.
func (r *Router) route(ctx context.Context, batch []event.Message[*event.Record]) error {
	began := time.Now()
	var (
		ready    []event.Message[event.Delivery]
		ds       []event.Delivery
		selected []*Alert
	)
	for _, h := range batch {
		ds, selected = r.match(h.Value, ds[:0], selected)
		if len(ds) == 0 {
			if err := h.Ack(ctx); err != nil {
				return fmt.Errorf("event is done: %w", err)
			}
			continue
		}
		if ready == nil {
			ready = make([]event.Message[event.Delivery], 0, min(len(batch)*len(ds), dispatchChunk+len(ds)))
		}
		for i, acker := range event.Divide(h.Acker, len(ds)) {
			ready = append(ready, event.Message[event.Delivery]{Value: ds[i], Acker: acker})
		}
		if len(ready) >= dispatchChunk {
			if err := r.dispatch(ctx, ready); err != nil {
				return err
			}
			ready = nil
		}
	}
	if err := r.dispatch(ctx, ready); err != nil {
		return err
	}
	for _, h := range batch {
		r.metrics.count(h.Value)
	}
	r.metrics.seconds.Observe(time.Since(began).Seconds())
	return nil
}

func (r *Router) dispatch(ctx context.Context, ready []event.Message[event.Delivery]) error {
	if len(ready) == 0 {
		return nil
	}
	if err := r.Deliverer.Dispatch(ctx, ready); err != nil {
		return fmt.Errorf("dispatch deliveries: %w", err)
	}
	r.metrics.deliveries.Add(float64(len(ready)))
	return nil
}

// match appends the deliveries of one event. It also returns the selected Alerts, whose slice the next call uses again.
func (r *Router) match(rec *event.Record, ds []event.Delivery, room []*Alert) (_ []event.Delivery, selected []*Alert) {
	o := rec.Event.InvolvedObject
	selected, considered := r.Alerts.Select(o, rec.Labels, room[:0])
	r.metrics.considered.Add(float64(considered))
	if len(selected) == 0 {
		return ds, selected
	}
	message := r.budget.Message(o.Namespace, rec.Event.Message)
	var d decision
	for _, a := range selected {
		r.Destinations.decide(rec, &message, a, &d)
		if d.cutShort {
			r.cutShort(a)
		}
		if d.ruling.matched() {
			ds = r.take(a, &d, ds)
		}
	}
	r.metrics.patternSeconds.Add(message.End().Seconds())
	return ds, selected
}

// take appends the delivery of an event that an Alert wants, unless its Provider is known not to take it.
func (r *Router) take(a *Alert, d *decision, ds []event.Delivery) []event.Delivery {
	now := time.Now()
	r.metrics.matches.Inc()
	r.Reports.matched(a.Namespace, a.Name, a.UID, now)
	switch d.ruling {
	case ruledTaken:
	case ruledUnsupported:
		lost := d.delivery
		r.Deliverer.Lost(&lost, d.dest, labelUnsupported, d.dest.NotReady)
		return ds
	default:
		r.metrics.skipped.Inc()
		return ds
	}
	if len(d.conflicts) > 0 && a.conflictDue(now) {
		r.Recorder.Event(kindAlert, a.Namespace, a.Name, a.UID, warning, ReasonMetadataConflict,
			conflictMessage(d.delivery.Event.InvolvedObject, d.conflicts))
	}
	return append(ds, d.delivery)
}

// maxConflictsTold bounds the keys that a message names. maxKeyTold bounds each of them: the sender of an event chooses their length.
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
	if r.Reports.cutShort(a, time.Now()) {
		r.Log.Warn("patterns took too long, event passed unfiltered", "namespace", a.Namespace, "alert", a.Name)
	}
}
