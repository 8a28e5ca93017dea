package github

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/githost"
	"notifier/internal/event"
)

const (
	maxEventType = 100    // characters
	maxPayload   = 60_000 // bytes; GitHub refuses 64 KB
	maxMessage   = 16_000 // characters
	maxMetadata  = 400    // characters of a name or a value if the payload is too long
)

// dispatch is the body of a repository_dispatch.
type dispatch struct {
	EventType string `json:"event_type"`
	// ClientPayload has ten fields at most.
	ClientPayload payload `json:"client_payload"`
}

// payload is the event as a workflow reads it, under github.event.client_payload.
type payload struct {
	event.Event
	DeliveryID string `json:"deliveryID"`
}

// dispatch starts the repository's workflows on: repository_dispatch.
func (s *Sender) dispatch(ctx context.Context, n provider.Notification) error {
	body := dispatchOf(n)
	return s.Call(ctx, func(ctx context.Context) error {
		return s.do(ctx, provider.Request{URL: s.url("dispatches"), JSON: body}, nil)
	})
}

// dispatchOf returns the dispatch of a notification, cut to GitHub's limits.
func dispatchOf(n provider.Notification) dispatch {
	o := n.Event.InvolvedObject
	d := dispatch{
		EventType:     githost.Shorten(strings.ToValidUTF8(o.Kind+"/"+o.Name+"."+o.Namespace, "\uFFFD"), maxEventType),
		ClientPayload: payload{Event: n.Event, DeliveryID: n.DeliveryID},
	}
	e := &d.ClientPayload.Event
	if e.RelatedObject != nil && e.Action != "" && len(e.Metadata) > 0 { // all eleven fields: a Pod's name is missed least
		e.ReportingInstance = ""
	}
	if len(e.Message) > maxPayload { // it is not encoded whole: it may have megabytes
		e.Message = provider.Truncate(e.Message, maxPayload)
	}
	for limit := maxMessage; size(d) > maxPayload && limit > 1; limit /= 2 {
		e.Message = provider.Truncate(e.Message, limit)
	}
	if size(d) <= maxPayload {
		return d
	}
	for names := slices.Sorted(maps.Keys(n.Event.Metadata)); size(d) > maxPayload && len(names) > 0; names = names[:len(names)/2] {
		e.Metadata = shortened(n.Event.Metadata, names)
	}
	return d
}

// shortened returns the entries with the given names, with names and values cut.
func shortened(metadata map[string]string, names []string) map[string]string {
	out := make(map[string]string, len(names))
	for _, name := range names {
		out[provider.Truncate(name, maxMetadata)] = provider.Truncate(metadata[name], maxMetadata)
	}
	return out
}

// size returns the length of a dispatch in bytes, as it is sent.
func size(d dispatch) int {
	encoded, err := json.Marshal(d)
	if err != nil {
		return 0 // the request then returns the error
	}
	return len(encoded)
}
