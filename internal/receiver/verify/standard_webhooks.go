package verify

import (
	"context"
	"encoding/json"
	"net/http"
)

// standardWebhooks serves every sender of the Standard Webhooks specification. The token is its signing secret.
type standardWebhooks struct{ standard standard }

func newStandardWebhooks(c Credentials) (scheme, error) {
	s, err := newStandard(c.Token)
	if err != nil {
		return nil, err
	}
	return standardWebhooks{s}, nil
}

func (v standardWebhooks) Begin(_ context.Context, h http.Header) (Check, error) {
	return v.standard.begin(h)
}

func (standardWebhooks) Event(h http.Header) Event {
	return Event{Selects: true, Delivery: h.Get("Webhook-Id")}
}

// parse reads the event's name from the field "type". The specification recommends this field and JSON but requires
// neither, so a body without them is an event without a name.
func (v standardWebhooks) parse(h http.Header, body []byte) (Content, error) {
	var payload struct {
		Type string `json:"type"`
	}
	e := v.Event(h)
	if json.Unmarshal(body, &payload) == nil {
		e.Name = payload.Type
	}
	return Content{Event: e, Document: jsonDocument(h, body)}, nil
}
