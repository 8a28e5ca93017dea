package verify

import (
	"net/http"
	"testing"
)

func TestGenericTakesWhoeverKnowsThePath(t *testing.T) {
	try(t, "generic", map[string]attempt{
		"no header":   {http.Header{}, nil},
		"any headers": {header("X-Signature", "sha256=00", "Authorization", "x"), nil},
	})
}

// Fails when one of the headers is not read, or the other takes precedence.
func TestGenericTypesNameTheDeliveryInEitherCommonHeader(t *testing.T) {
	for _, kind := range []string{"generic", "generic-hmac"} {
		reads(t, kind, map[string]struct {
			header http.Header
			want   Event
		}{
			"neither":         {header(), Event{}},
			"Idempotency-Key": {header("Idempotency-Key", "a"), Event{Delivery: "a"}},
			"webhook-id":      {header("webhook-id", "b"), Event{Delivery: "b"}},
			"both":            {header("webhook-id", "b", "Idempotency-Key", "a"), Event{Delivery: "a"}},
		})
	}
}

func FuzzGeneric(f *testing.F) {
	fuzzVerifier(f, "generic", []string{"X-Anything"}, nil, func(http.Header, string) bool { return true })
}
