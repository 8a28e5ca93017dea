package receiver

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"notifier/internal/receiver/limit"
)

// Fails when the budget of unknown paths counts by the proxy, or by the client's own claim.
func TestUnknownPathsBehindAProxyAreChargedToTheClient(t *testing.T) {
	limits := DefaultLimits()
	limits.Unknown = limit.Budget{Rate: 0.001, Burst: 1}
	w := newWebhooks(t, newTable(t, limits), &recorder{})
	w.proxies = limit.Proxies{netip.MustParsePrefix("10.0.0.0/8")}
	try := func(line string) int {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.RemoteAddr = "10.0.0.1:1"
		r.Header.Set("X-Forwarded-For", line)
		return do(w, r).StatusCode
	}
	for _, step := range []struct {
		line string
		want int
	}{
		{"198.51.100.7", 404},
		{"198.51.100.7", 429},
		{"192.0.2.66, 198.51.100.7", 429},
		{"198.51.100.8", 404},
	} {
		if got := try(step.line); got != step.want {
			t.Errorf("%s: %d, want %d", step.line, got, step.want)
		}
	}
}
