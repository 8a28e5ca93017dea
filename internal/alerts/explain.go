package alerts

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
	"notifier/internal/event/view"
)

// rulings has, for each ruling, the field that decided and a sentence. Fields of the Provider begin with "provider".
var rulings = [...]struct{ field, why string }{
	ruledInert:     {"spec", "The Alert is not served as it is: its conditions Ready and Serving say why."},
	ruledSuspended: {"spec.suspend", "The Alert is suspended."},
	ruledKind:      {"spec.eventSources", "No entry has the kind of the object."},
	ruledName:      {"spec.eventSources", "No entry with the kind of the object has its name, or * for every name."},
	ruledNamespace: {"spec.eventSources", "Only an entry that names another namespace is for the object, and such entries are not served."},
	ruledUnknown:   {"spec.eventSources", "The entry for the object has matchLabels, and the object's labels were not known when the event came."},
	ruledLabels:    {"spec.eventSources", "The entry for the object has matchLabels that are not all among the object's labels."},
	ruledSeverity:  {"spec.eventSeverity", "The Alert takes only events of severity error."},
	ruledYounger:   {"metadata.creationTimestamp", "The Alert was made after the event was accepted."},

	ruledNotIncluded:       {"spec.inclusionList", "No pattern matches the message of the event."},
	ruledExcluded:          {"spec.exclusionList", "A pattern matches the message of the event."},
	ruledProviderSuspended: {"provider.spec.suspend", "The Provider is suspended."},
	ruledType:              {"provider.spec.type", "The Provider's type is not sent such events."},
	ruledUnsupported:       {"provider.spec.type", "The Provider's type is not supported."},
	ruledTaken:             {"", "The Alert takes the event."},
}

// explainPart divides the router's budget: explanations may take that part of it, in addition to the router's own.
const explainPart = 4

// Explain returns the decision of each Alert of the event's namespace and its Provider about an event, ordered by the Alert's name. It
// uses the current Alerts and Providers and the router's own decide. It sends, counts and reports nothing. The time that patterns take is
// charged to the namespace in a budget apart from the router's.
//
// It returns early, with part of the decisions, when ctx ends.
func (r *Router) Explain(ctx context.Context, rec *event.Record) []view.Decision {
	o := rec.Event.InvolvedObject
	all := r.Alerts.all(o.Namespace)
	decisions := make([]view.Decision, 0, len(all))
	for _, a := range all {
		d, err := r.decideInTurn(ctx, rec, a)
		if err != nil {
			break
		}
		decisions = append(decisions, view.Decision{
			Alert: a.Name, Provider: a.Provider, Matched: d.ruling == ruledTaken, Field: rulings[d.ruling].field, Why: why(a, &d),
			DeliveryID: event.DeliveryID(rec, a.UID, a.Provider),
		})
	}
	return decisions
}

// decideInTurn decides about an event for an Alert when it is the turn of its namespace. Its error is that of ctx.
func (r *Router) decideInTurn(ctx context.Context, rec *event.Record, a *Alert) (d decision, err error) {
	turn, err := r.turns.Acquire(ctx, a.Namespace, 1)
	if err != nil {
		return d, err
	}
	defer turn.Release()
	if d.ruling = a.selects(rec.Event.InvolvedObject, rec.Labels); d.ruling == ruledTaken {
		// Anew in each turn: the waits between do not count as time of patterns.
		message := r.explaining.Message(a.Namespace, rec.Event.Message)
		defer message.End()
		r.Destinations.decide(rec, &message, a, &d)
	}
	return d, nil
}

// selects returns ruledTaken if an Alert selects an object, else why not.
func (a *Alert) selects(o event.ObjectReference, labels map[string]string) ruling {
	switch {
	case a.inert:
		return ruledInert
	case a.suspended:
		return ruledSuspended
	}
	nearest := ruledKind
	for _, s := range a.sources {
		switch {
		case s.key.kind != o.Kind:
		case s.key.name != anyName && s.key.name != o.Name:
			nearest = max(nearest, ruledName)
		case slices.ContainsFunc(s.selectors, func(wanted selector) bool { return wanted.satisfiedBy(labels) }):
			return ruledTaken
		case labels == nil:
			nearest = max(nearest, ruledUnknown)
		default:
			nearest = max(nearest, ruledLabels)
		}
	}
	for _, s := range a.Denied {
		if s.Kind == o.Kind && (s.Name == anyName || s.Name == o.Name) {
			nearest = max(nearest, ruledNamespace)
		}
	}
	return nearest
}

// why returns a decision as a sentence, and the reason for which a delivery waits.
func why(a *Alert, d *decision) string {
	is := rulings[d.ruling].why
	switch d.ruling {
	case ruledTaken:
	case ruledType:
		return strings.TrimSpace(is + " " + provider.Lacks(d.dest.Takes, notification(&d.delivery)))
	default:
		return is
	}
	switch {
	case d.dest == nil:
		is += fmt.Sprintf(" Its Provider %q does not exist, or is being deleted, so the delivery waits for it.", a.Provider)
	case d.dest.Sender == nil:
		is += " Its Provider cannot be used as it is, so the delivery waits for it."
	}
	if d.cutShort {
		is += " The patterns of the namespace take longer than they may, and those that were not evaluated are passed over."
	}
	return is
}
