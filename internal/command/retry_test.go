package command

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"notifier/internal/event/view"
)

// Fails when a command ends with a refusal that asks to try again, although another command waits, or when a test message is requested again
// after an answer that leaves open whether it was sent.
func TestACommandWaitsForATemporaryRefusalToPass(t *testing.T) {
	const show, explain, all = "GET /v1/namespaces/team-a/deliveries/3f1c", "GET /v1/namespaces/team-a/events/9b2e/explain", "GET /v1/namespaces"
	const listed, test = "GET /v1/namespaces/team-a/deliveries?limit=50", "POST /v1/namespaces/team-a/providers/slack/test"
	for line, c := range map[string]struct {
		refused string
		status  int
		again   bool
	}{
		"deliveries list":                {listed, http.StatusServiceUnavailable, true},
		"deliveries list -A":             {all, http.StatusServiceUnavailable, true},
		"deliveries show 3f1c":           {show, http.StatusServiceUnavailable, true},
		"events explain 9b2e":            {explain, http.StatusTooManyRequests, true},
		"providers test slack --wait=0":  {test, http.StatusTooManyRequests, true},
		"providers test slack --wait=0 ": {test, http.StatusServiceUnavailable, false},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			answers := map[string]any{
				listed: view.Page[view.Delivery]{Items: []view.Delivery{dead}}, all: view.Namespaces{Items: []string{"team-a"}},
				show: view.DeliveryDetail{Delivery: dead}, explain: view.Explanation{}, test: view.TestResult{DeliveryID: "3f1c"},
			}
			asked, answer := 0, answers[c.refused]
			answers[c.refused] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asked++; asked == 1 {
					refuses(c.status, "1")(w, r)
					return
				}
				_ = json.NewEncoder(w).Encode(answer)
			})
			r := call(t, newFakeAPI(t, answers), strings.Fields(line)...)
			if again := asked == 2; again != c.again || again != (r.err == nil) {
				t.Errorf("asked %d times, error %v", asked, r.err)
			}
		})
	}
}
