package verify

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"

	"notifier/internal/receiver/answer"
	"notifier/internal/receiver/verify/cdevents"
)

// Bounds on the cost of a CDEvent. 64 KiB is the event size that CloudEvents asks every implementation to carry. An
// event takes 2 ms and 200 KB with cdevents.MaxLinks ordinary links, up to 12 ms with as many tags as fit, and 5.5 MB
// with content nested as deeply as fits.
const (
	maxCDEvent = 64 << 10
	// cdEventGrowth is the memory for each byte while an event is decoded: 84 for nested objects, each with a member
	// without a name.
	cdEventGrowth = 90
)

const (
	refusedLong    answer.Refusal = "event is larger than 64 KiB"
	refusedCDEvent answer.Refusal = "body is not a CDEvent of specification 0.4 or 0.5"
	refusedType    answer.Refusal = "event types of CloudEvent and CDEvent differ"
)

// cdEvents serves senders of CDEvents, which cannot sign: like generic it authenticates by its path.
var cdEvents = scheme{begin: provenByPath, parse: parseCDEvent, growth: cdEventGrowth}

func parseCDEvent(h http.Header, body []byte) (Content, error) {
	if len(body) > maxCDEvent {
		return Content{}, refusedLong
	}
	outer, err := readCloudEvent(h, body)
	if err != nil {
		return Content{}, err
	}
	inner, err := cdevents.Read(outer.Data)
	if errors.Is(err, cdevents.ErrInvalid) {
		return Content{}, refusedCDEvent
	}
	if err != nil {
		return Content{}, refusalOf(err)
	}
	switch {
	case outer.Type == "":
		outer.Type = inner.Type.String()
	case !names(outer.Type, inner.Type):
		return Content{}, refusedType
	}
	if outer.ID == "" {
		outer.ID, outer.Source = inner.ID, inner.Source
	}
	// An ID is unique only among the IDs of its source.
	e := Event{Name: outer.Type, Selects: true, Delivery: outer.ID + " " + outer.Source}
	return Content{Event: e, Document: outer.Data}, nil
}

// cloudEvent is the CloudEvent that carries a CDEvent.
type cloudEvent struct {
	ID     string          `json:"id"`
	Source string          `json:"source"`
	Type   string          `json:"type"`
	Data   json.RawMessage `json:"data"`
}

// readCloudEvent reads both forms of a CloudEvent over HTTP. In one, headers around the data carry the attributes; Flux
// requires none of them. In the other, one JSON object carries all of them, and they are mandatory.
func readCloudEvent(h http.Header, body []byte) (cloudEvent, error) {
	if media, _, _ := mime.ParseMediaType(h.Get("Content-Type")); media != "application/cloudevents+json" {
		return cloudEvent{ID: h.Get("Ce-Id"), Source: h.Get("Ce-Source"), Type: h.Get("Ce-Type"), Data: body}, nil
	}
	var e cloudEvent
	if err := decodeJSON(body, &e); err != nil {
		return cloudEvent{}, err
	}
	if e.ID == "" || e.Source == "" || e.Type == "" || e.Data == nil {
		return cloudEvent{}, refusedField
	}
	return e, nil
}

// names reports whether the type of a CloudEvent is that of the CDEvent in it. Receivers of Flux also list types without
// their version, and under the names of the first draft of CDEvents.
func names(outer string, inner cdevents.Type) bool {
	known := []string{inner.String(), inner.Unversioned(), "cd." + inner.Subject + "." + inner.Predicate + ".v1"}
	return slices.ContainsFunc(known, func(name string) bool { return strings.EqualFold(outer, name) })
}
