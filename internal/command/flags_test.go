package command

import (
	"errors"
	"strings"
	"testing"

	"notifier/internal/event/view"
)

// Fails when a flag about the user or the server is left aside without a word: the output would be that of another.
func TestAFlagThatWouldBeLeftAsideIsRefused(t *testing.T) {
	api := newFakeAPI(t, map[string]any{"GET /v1/namespaces/team-a/events?limit=50": view.Page[view.Event]{}})
	config := "--kubeconfig=" + kubeconfig(t, "https://127.0.0.1:1", "{token: "+token+"}")
	for _, line := range [][]string{
		{"--audience=notifier", "--server=" + api.URL},
		{"--install-namespace=flux-system", "--server=" + api.URL},
		{"--server-ca=ca.crt"},
	} {
		r := callWith(t, append([]string{"events", "list", config}, line...))
		flag, _, _ := strings.Cut(line[0], "=")
		if len(api.asked) > 0 || r.err == nil || !strings.HasPrefix(r.err.Error(), flag+": ") || !errors.As(r.err, &UsageError{}) {
			t.Errorf("%s: %d requests, error %v", flag, len(api.asked), r.err)
		}
		api.asked = nil
	}
	t.Setenv(serverVariable, api.URL) // --server= has the port-forward used all the same
	r := callWith(t, []string{"events", "list", config, "--server=", "--install-namespace=flux-system"})
	if r.err == nil || !strings.Contains(r.err.Error(), "look for notifier") || len(api.asked) > 0 {
		t.Errorf("%d requests, error %v", len(api.asked), r.err)
	}
}
