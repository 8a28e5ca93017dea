package api

import (
	"net/http"
	"strings"
	"testing"
)

// Fails when a user is told to make a token as it is refused, for the audience of the API server in place of the API's own.
func TestARefusedTokenNamesTheAudience(t *testing.T) {
	w := newWorld(t)
	if got := w.ask("nobody", "GET", "/v1/namespaces", ""); strings.Contains(got.Body.String(), "audience") {
		t.Errorf("without an audience: %s", got.Body)
	}
	w.handler.service.options.Audiences = []string{"notifier", "other"}
	got := w.ask("nobody", "GET", "/v1/namespaces", "")
	if got.Code != http.StatusUnauthorized || !strings.Contains(got.Body.String(), "kubectl create token NAME --audience=notifier") {
		t.Errorf("%d %s", got.Code, got.Body)
	}
}
