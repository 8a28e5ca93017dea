package alerts

import (
	"context"
	"fmt"
	"strings"
	"time"

	"notifier/internal/alerts/filter"
	"notifier/internal/event"
	"notifier/internal/fair"
)

// EventSource hands out the accepted events.
type EventSource interface {
	// Events calls handler with events, those of each namespace in stream order, until ctx ends. An event stays open until it is
	// acknowledged. Open events are handed out again to the next reader when ctx ends, and to this one after an error.
	Events(ctx context.Context, handler event.Handler) error
}

// dispatcher is a Deliverer to its Router.
type dispatcher interface {
	Dispatch(ctx context.Context, ds []event.Message[event.Delivery]) error
	Full(namespace string) bool
	Begin(behind func(namespace string) bool)
	CaughtUp(ctx context.Context)
	Spill(ctx context.Context, order uint64)
	Lost(d *event.Delivery, dest *Destination, label, reason string)
}

// dispatchChunk bounds the deliveries that are made before they are dispatched: one batch of events may be for many Alerts.
const dispatchChunk = 1024

// Router turns events into deliveries.
type Router struct {
	DelivererOptions // of its Deliverer
	events           EventSource
	deliverer        dispatcher
	metrics          routeMetrics
	budget           *filter.Budget
	// explaining is the budget of explanations, so that requests for them never have an event routed unfiltered. Explanations take turns for
	// each Alert, first by namespace.
	explaining *filter.Budget
	turns      *fair.Capacities[string]
}

// NewRouter returns a Router of events to a Deliverer, with the tables, reports and gate of that, which is not running.
func NewRouter(events EventSource, d *Deliverer) *Router {
	return &Router{
		DelivererOptions: d.DelivererOptions, events: events, deliverer: d, metrics: newRouteMetrics(d.Registerer),
		budget: filter.NewBudget(1, time.Now), explaining: filter.NewBudget(explainPart, time.Now),
		turns: fair.NewCapacities[string](fair.NewCapacity(1), 1, 0),
	}
}

// Run routes events until ctx ends or the bus is lost.
func (r *Router) Run(ctx context.Context) error {
	if !opened(ctx, r.Gate) {
		return nil
	}
	return r.events.Events(ctx, event.Handler{
		Heavy: r.heavy, Full: r.deliverer.Full, Handle: r.route, Begin: r.deliverer.Begin, CaughtUp: r.deliverer.CaughtUp,
		Spill: r.deliverer.Spill,
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
	if err := r.deliverer.Dispatch(ctx, ready); err != nil {
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
			r.metrics.cutShort.Inc()
			if r.Reports.cutShort(a, time.Now()) {
				r.Log.Warn("patterns took too long, event passed unfiltered", "namespace", a.Namespace, "alert", a.Name)
			}
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
		r.deliverer.Lost(&lost, d.dest, labelUnsupported, d.dest.NotReady)
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
