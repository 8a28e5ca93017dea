package view

import "notifier/internal/event"

// EventOf returns the view of a record.
func EventOf(r *event.Record) Event {
	o := r.Event.InvolvedObject
	return Event{
		ID: r.ID, Namespace: o.Namespace, Object: Object{Kind: o.Kind, Name: o.Name}, Severity: r.Event.Severity, Reason: r.Event.Reason,
		Message: r.Event.Message, Metadata: r.Event.Metadata, Time: r.Event.Timestamp, Accepted: r.Accepted, Source: string(r.Source), Order: r.Seq,
	}
}
