package verify

import (
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strings"

	"notifier/internal/receiver/answer"
	"notifier/internal/receiver/limit"
	"notifier/internal/receiver/verify/cdevents"
)

// What a CDEvent may cost. 64 KiB is the size of event that CloudEvents asks everybody to carry. It takes 2 ms and 200 KB with
// cdevents.MaxLinks ordinary links, and up to 12 ms with as many tags, and 5.5 MB with as deep a content, as there is room for.
const (
	maxCDEvent = 64 << 10
	// cdEventSize is what each byte takes in memory meanwhile: 84 of objects in one another, each with a member without a name.
	cdEventSize = 90
)

const (
	refusedLong    answer.Refusal = "event is larger than 64 KiB"
	refusedCDEvent answer.Refusal = "body is not a CDEvent of specification 0.4 or 0.5"
	refusedType    answer.Refusal = "event types of CloudEvent and CDEvent differ"
)

// cdEvents cannot sign: like generic it authenticates by its path.
type cdEvents struct {
	generic
	namespace string
	share     *limit.Share
}

func newCDEvents(c Credentials) (Verifier, error) {
	return cdEvents{namespace: c.Namespace, share: c.Share}, nil
}

func (cdEvents) Type() string { return "cdevents" }

func (v cdEvents) Parse(ctx context.Context, h http.Header, body []byte) (Content, error) {
	if len(body) > maxCDEvent {
		return Content{}, refusedLong
	}
	outer, err := readCloudEvent(h, body)
	if err != nil {
		return Content{}, err
	}
	inner, err := v.read(ctx, outer.Data)
	if err != nil {
		return Content{}, err
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
	// An ID is unique only among those of its source.
	e := Event{Name: outer.Type, Selects: true, Delivery: outer.ID + " " + outer.Source}
	return Content{Event: e, Document: outer.Data}, nil
}

// read waits for the namespace's turn, so that a flood of its events waits for itself and not in front of others'.
func (v cdEvents) read(ctx context.Context, data []byte) (cdevents.Context, error) {
	turn, ok := v.share.Enter(ctx, v.namespace, cdEventSize*int64(len(data)))
	if !ok {
		return cdevents.Context{}, limit.ErrNoTurn
	}
	defer turn.Leave()
	e, err := cdevents.Read(data)
	if errors.Is(err, cdevents.ErrInvalid) {
		return cdevents.Context{}, refusedCDEvent
	}
	return e, refusalOf(err)
}

// cloudEvent is the event that carries a CDEvent.
type cloudEvent struct {
	ID     string          `json:"id"`
	Source string          `json:"source"`
	Type   string          `json:"type"`
	Data   json.RawMessage `json:"data"`
}

// readCloudEvent reads the two ways in which CloudEvents travel over HTTP: attributes in headers around the data, none of which
// Flux asks for, or all in one JSON object, where they are mandatory.
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

// names reports whether the type of a CloudEvent is that of the CDEvent in it. Receivers of Flux also list types without their
// version, and as the first draft of CDEvents named them.
func names(outer string, inner cdevents.Type) bool {
	for _, name := range []string{
		inner.String(), inner.Unversioned(), "cd." + inner.Subject + "." + inner.Predicate + ".v1",
	} {
		if strings.EqualFold(outer, name) {
			return true
		}
	}
	return false
}
