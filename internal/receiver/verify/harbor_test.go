package verify

import (
	"net/http"
	"testing"
)

// Fails when a scheme is cut off, when letters' case does not count, or when a part of the token is enough.
func TestHarborAcceptsOnlyTheTokenItself(t *testing.T) {
	try(t, "harbor", map[string]attempt{
		"the token":         {header("Authorization", token), nil},
		"no content type":   {http.Header{"Authorization": {token}}, nil},
		"no header":         {header(), refusedNoToken},
		"an empty header":   {header("Authorization", ""), refusedNoToken},
		"a scheme":          {header("Authorization", "Bearer "+token), refusedToken},
		"another case":      {header("Authorization", "S3CRET"), refusedToken},
		"the token's start": {header("Authorization", token[:3]), refusedToken},
		"more than it":      {header("Authorization", token+" "), refusedToken},
	})
	if err := verify(verifierOf(t, "harbor", "Bearer x"), header("Authorization", "Bearer x"), ""); err != nil {
		t.Errorf("a token that begins with a scheme: %v", err)
	}
}

func TestHarborsEventsDoNotSelect(t *testing.T) {
	reads(t, "harbor", map[string]struct {
		header http.Header
		want   Event
	}{"any": {header("X-Event-Key", "push"), Event{}}})
}

func FuzzHarbor(f *testing.F) {
	fuzzVerifier(f, "harbor", []string{"Authorization"}, []string{token, "Bearer " + token}, func(h http.Header, _ string) bool {
		return h.Get("Authorization") == token
	})
}
