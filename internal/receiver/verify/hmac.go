package verify

import (
	"context"
	"net/http"
)

// hmacVerifier is the Verifier of type generic-hmac: X-Signature carries "<algorithm>=<hex>" over the raw body.
type hmacVerifier struct{ macs *macs }

func newHMAC(c Credentials) (scheme, error) { return hmacVerifier{newMACs(c.Token)}, nil }

func (hmacVerifier) Event(h http.Header) Event { return genericEvent(h) }

func (v hmacVerifier) Begin(_ context.Context, h http.Header) (Check, error) {
	return v.macs.begin(h.Get("X-Signature"))
}
