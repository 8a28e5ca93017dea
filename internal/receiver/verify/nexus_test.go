package verify

import (
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"
	"testing"
)

// Fails when the digits' case counts, as in Flux, or when another algorithm or a prefix is accepted.
func TestNexusRequiresAValidSignature(t *testing.T) {
	good := hexMAC(sha1.New, token, attemptBody)
	signed := func(signature string, want error) attempt {
		return attempt{http.Header{"X-Nexus-Webhook-Signature": {signature}}, want}
	}
	try(t, "nexus", map[string]attempt{
		"sha1":              signed(good, nil),
		"upper-case digits": signed(strings.ToUpper(good), nil),
		"no signature":      {header(), refusedNoSignature},
		"an empty one":      signed("", refusedNoSignature),
		"another token's":   signed(hexMAC(sha1.New, "other", attemptBody), refusedMismatch),
		"the empty token's": signed(hexMAC(sha1.New, "", attemptBody), refusedMismatch),
		"with a prefix":     signed("sha1="+good, refusedMalformed),
		"sha256":            signed(hexMAC(sha256.New, token, attemptBody), refusedMalformed),
		"half of it":        signed(good[:20], refusedMalformed),
		"what is not hex":   signed(strings.Repeat("z", 40), refusedMalformed),
	})
}

// Fails when a body that Flux refuses passes, or when a body that Flux accepts is refused.
func TestNexusReadsItsPayload(t *testing.T) {
	v := verifierOf(t, "nexus", token)
	if !v.KeepsBody() {
		t.Fatal("nexus does not read the body")
	}
	h := header("X-Nexus-Webhook-Delivery", "d1", "X-Nexus-Webhook-Id", "rm:repository:component")
	for body, want := range map[string]error{
		`{"action":"CREATED","repositoryName":"maven","component":{}}`: nil,
		`{}`:                           nil,
		`{"action":1}`:                 refusedField,
		`{"repositoryName":["maven"]}`: refusedField,
		`[]`:                           refusedField,
		`{"action":"CREATED"`:          refusedJSON,
		``:                             refusedJSON,
		`{} {}`:                        refusedJSON,
	} {
		c, err := v.Content(t.Context(), h, []byte(body))
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", body, err, want)
		}
		if err == nil && (string(c.Document) != body || c.Event != Event{Delivery: "d1"}) {
			t.Errorf("%s: read as %+v, %s", body, c.Event, c.Document)
		}
	}
}

func FuzzNexus(f *testing.F) {
	names := []string{"X-Nexus-Webhook-Signature"}
	signatures := func(body string) []string { return []string{hexMAC(sha1.New, token, body)} }
	fuzzVerifier(f, "nexus", names, signatures(""), signedBy(names, signatures))
}
