package verify

import (
	"context"
	"net/http"
)

// newHMAC serves type generic-hmac: X-Signature carries "<algorithm>=<hex>" over the raw body.
func newHMAC(c Credentials) (scheme, error) {
	macs := newMACs(c.Token)
	return scheme{event: genericEvent, begin: func(_ context.Context, h http.Header) (Check, error) {
		return macs.begin(h.Get("X-Signature"))
	}}, nil
}
