package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// Fails when a condition is left out of readiness: the start would then not wait for it. That of the deliveries is for
// the embedded NATS server alone.
func TestReadinessHasEveryCondition(t *testing.T) {
	s := setUp(t)
	resp, err := s.Do(s.Ctx, http.MethodGet, s.HealthURL+"/readyz", nil, nil)
	s.Must(err)
	var names []string
	for line := range strings.Lines(string(resp.Body)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line[strings.Index(line, "]")+1:]), ":")
		names = append(names, name)
	}
	if got, want := strings.Join(names, " "), "bus compiled objects impersonation definitions deliveries"; got != want {
		t.Errorf("/readyz has the conditions %q, want %q", got, want)
	}
}
