package alerts

import (
	"time"

	"notifier/internal/alerts/filter"
	"notifier/internal/event"
)

// ruling is the decision about one event for one Alert.
type ruling uint8

// The rulings. Those up to ruledLabels are about Alerts that do not select the event's object: the index passes them over, and only an
// explanation distinguishes them. Among those of eventSources a later one is a nearer miss.
const (
	ruledInert ruling = iota
	ruledSuspended
	ruledKind
	ruledName
	ruledNamespace
	ruledUnknown
	ruledLabels
	ruledSeverity
	ruledYounger
	ruledNotIncluded
	ruledExcluded
	ruledProviderSuspended
	ruledType
	ruledUnsupported
	// ruledTaken says that the event becomes a delivery.
	ruledTaken
)

// ofFilter has the ruling of each result of an Alert's filter.
var ofFilter = [...]ruling{filter.Admitted: ruledTaken, filter.NotIncluded: ruledNotIncluded, filter.Excluded: ruledExcluded}

// matched reports whether the Alert wants the event, regardless of its Provider.
func (r ruling) matched() bool { return r >= ruledProviderSuspended }

// decision is the result of decide for one event and one Alert.
type decision struct {
	ruling ruling
	// cutShort says that the Alert's patterns took too long and were not all evaluated.
	cutShort bool
	// dest is the Alert's Provider, nil when there is none. It and the fields below are set when the ruling is matched.
	dest *Destination
	// delivery is the delivery of the event when it is taken. It and the conflicts in its metadata are not set when the Provider is
	// suspended.
	delivery  event.Delivery
	conflicts []string
}

// decide decides about an event for an Alert that selects the event's object. m is the event's message, whose budget pays for the time of
// the patterns. The router acts on the decision, and Explain reports it.
func (t *Destinations) decide(rec *event.Record, m *filter.Message, a *Alert, d *decision) {
	exact := true
	switch {
	case a.errorsOnly && rec.Event.Severity != event.SeverityError:
		d.ruling = ruledSeverity
	case a.youngerThan(rec.Accepted):
		d.ruling = ruledYounger
	default:
		var r filter.Result
		r, exact = a.filter.Admits(m)
		d.ruling = ofFilter[r]
	}
	d.cutShort = !exact
	if d.ruling != ruledTaken {
		return
	}
	if d.dest = t.Get(a.Namespace, a.Provider); d.dest != nil && d.dest.Suspended {
		d.ruling = ruledProviderSuspended
		return
	}
	d.delivery, d.conflicts = address(rec, a)
	switch dest := d.dest; {
	case dest == nil:
	case !dest.takes(notification(&d.delivery)):
		d.ruling = ruledType
	case dest.Unsupported:
		d.ruling = ruledUnsupported
	default:
		d.delivery.ProviderUID, d.delivery.Destination = dest.UID, dest.Version
	}
}

// address makes the delivery of an event for an Alert, and returns the metadata keys on which the two disagree.
func address(rec *event.Record, a *Alert) (d event.Delivery, conflicts []string) {
	d = event.Delivery{
		ID:        event.DeliveryID(rec, a.UID, a.Provider),
		Order:     rec.Seq,
		Namespace: a.Namespace, Alert: a.Name, AlertUID: a.UID,
		Provider: a.Provider,
		Event:    rec.Event,
		Routed:   time.Now(),
		Recheck:  rec.Recheck, Known: rec.Known && !rec.Doubted,
	}
	// The record is shared by all Alerts: the copy gets a map of its own, so that no Alert sees another's metadata.
	d.Event.Metadata, d.Authored, conflicts = mergeMetadata(rec.Event, a)
	d.Annotated = annotated(rec.Event, d.Authored)
	return d, conflicts
}
