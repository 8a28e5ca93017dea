package api

import (
	"net/http"
	"strings"
	"testing"
)

// Fails when the owner of a long token, such as one of an identity provider that lists two hundred groups, is told to sign in again alone.
func TestALongTokenIsRefusedAsThat(t *testing.T) {
	w := newWorld(t)
	got := w.ask(strings.Repeat("a", maxToken+1), "GET", "/v1/namespaces", "")
	if got.Code != http.StatusUnauthorized || !strings.Contains(got.Body.String(), "longer than 6 KiB") {
		t.Errorf("%d %s", got.Code, got.Body)
	}
}
