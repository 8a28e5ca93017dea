package verify

import (
	"context"
	"net/http"
)

// generic authenticates by its path alone, which is derived from the token.
type generic struct{}

func newGeneric(Credentials) (scheme, error) { return generic{}, nil }

func (generic) Begin(context.Context, http.Header) (Check, error) { return accepted{}, nil }
func (generic) Event(h http.Header) Event                         { return genericEvent(h) }

// genericEvent returns an event with the sender's delivery ID. It has no name, since no header for it is common; two
// headers for the delivery are.
func genericEvent(h http.Header) Event {
	return Event{Delivery: first(h, "Idempotency-Key", "Webhook-Id")}
}
