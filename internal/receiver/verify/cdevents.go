package verify

import (
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"reflect"
	"strings"

	"github.com/cdevents/sdk-go/pkg/api"
	v04 "github.com/cdevents/sdk-go/pkg/api/v04"
	v05 "github.com/cdevents/sdk-go/pkg/api/v05"

	"notifier/internal/receiver/answer"
	"notifier/internal/receiver/limit"
)

// What a CDEvent may cost. The library decodes, renders and decodes again, and lists every fault it finds: 3 MiB of bad links
// take it 9 seconds and 3 GB. 64 KiB is the size of event that CloudEvents asks everybody to carry; with no more links than these
// it takes up to 20 ms and 10 MB.
const (
	maxCDEvent = 64 << 10
	maxLinks   = 64
	// cdEventSize is what each byte takes in memory meanwhile.
	cdEventSize = 160
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
		outer.ID, outer.Source = inner.Id, inner.Source
	}
	// An ID is unique only among those of its source.
	e := Event{Name: outer.Type, Selects: true, Delivery: outer.ID + " " + outer.Source}
	return Content{Event: e, Document: outer.Data}, nil
}

// read waits for the namespace's turn, so that a flood of its events waits for itself and not in front of others'.
func (v cdEvents) read(ctx context.Context, data []byte) (api.SharedContext, error) {
	turn, ok := v.share.Enter(ctx, v.namespace, cdEventSize*int64(len(data)))
	if !ok {
		return api.SharedContext{}, limit.ErrNoTurn
	}
	defer turn.Leave()
	return readCDEvent(data)
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

// readCDEvent returns the context of a valid CDEvent. The library dereferences links that are null, and its own reader decodes
// all events of one type into one shared value, so that they would race and fill each other's gaps: each gets a new one here.
func readCDEvent(data []byte) (api.SharedContext, error) {
	var head struct {
		Context struct {
			api.ContextForUnmarshalling
			Links []anyObject `json:"links"`
		} `json:"context"`
	}
	if err := decodeJSON(data, &head); err != nil {
		return api.SharedContext{}, err
	}
	if len(head.Context.Links) > maxLinks {
		return api.SharedContext{}, refusedCDEvent
	}
	catalogue := v04.CDEventsByUnversionedTypes
	if head.Context.UsesSpecVersion() {
		catalogue = v05.CDEventsByUnversionedTypes
	}
	key := head.Context.Type.UnversionedString()
	if head.Context.Type.Custom != "" {
		key = api.CustomEventMapKey
	}
	known, ok := catalogue[key]
	if !ok {
		return api.SharedContext{}, refusedCDEvent
	}
	empty := reflect.New(reflect.TypeOf(known).Elem()).Interface().(api.CDEventV04)
	e, err := api.NewFromJsonBytesContext(data, map[string]api.CDEventV04{key: empty})
	if err != nil || api.Validate(e) != nil {
		return api.SharedContext{}, refusedCDEvent
	}
	return head.Context.SharedContext, nil
}

// names reports whether the type of a CloudEvent is that of the CDEvent in it. Receivers of Flux also list types without their
// version, and as the first draft of CDEvents named them.
func names(outer string, inner api.CDEventType) bool {
	for _, name := range []string{
		inner.String(), inner.UnversionedString(), "cd." + inner.FQSubject() + "." + inner.Predicate + ".v1",
	} {
		if strings.EqualFold(outer, name) {
			return true
		}
	}
	return false
}
