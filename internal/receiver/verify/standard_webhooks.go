package verify

import (
	"encoding/json"
	"net/http"
)

// newStandardWebhooks serves every sender of the Standard Webhooks specification. The token is its signing secret.
func newStandardWebhooks(c Credentials) (scheme, error) {
	begin, err := newStandard(c.Token)
	return scheme{begin: begin, parse: parseStandardWebhook}, err
}

// parseStandardWebhook reads the event's name from the field "type". The specification recommends this field and JSON but requires
// neither, so a body without them is an event without a name.
func parseStandardWebhook(h http.Header, body []byte) (Content, error) {
	var payload struct {
		Type string `json:"type"`
	}
	e := Event{Selects: true, Delivery: h.Get("Webhook-Id")}
	if json.Unmarshal(body, &payload) == nil {
		e.Name = payload.Type
	}
	return Content{Event: e, Document: jsonDocument(h, body)}, nil
}
