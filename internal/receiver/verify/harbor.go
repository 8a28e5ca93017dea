package verify

import (
	"context"
	"net/http"
)

// harbor serves Harbor, which sends the token as the whole Authorization header, with no scheme unless the token begins
// with one. Only the body names its events, and as in Flux they do not select.
type harbor struct{ token tokenDigest }

func newHarbor(c Credentials) (scheme, error) { return harbor{newTokenDigest(c.Token)}, nil }

func (harbor) Event(http.Header) Event { return Event{} }

func (v harbor) Begin(_ context.Context, h http.Header) (Check, error) {
	return v.token.begin(h.Get("Authorization"))
}
