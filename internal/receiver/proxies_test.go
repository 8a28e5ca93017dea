package receiver

import "testing"

// Fails when the budget of unknown paths counts by the proxy, or by what the client says of itself.
func TestUnknownPathsBehindAProxyAreChargedToTheClient(t *testing.T) {
	limits := DefaultLimits()
	limits.Unknown = Budget{Rate: 0.001, Burst: 1}
	w := newWebhooks(t, newTable(t, limits), &recorder{})
	w.proxies = proxies
	try := func(line string) int { return do(w, from("10.0.0.1:1", line)).StatusCode }
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
