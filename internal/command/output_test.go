package command

import (
	"strings"
	"testing"
	"time"

	"notifier/internal/event/view"
)

// Fails when a list of IDs has anything else, so that another command cannot take it, or when a command that shows no list takes the form.
func TestAListOfIDsIsForAnotherCommand(t *testing.T) {
	other := dead
	other.ID, other.Time = "77aa", dead.Time.Add(-time.Hour)
	api := newFakeAPI(t, map[string]any{
		"GET /v1/namespaces":                            view.Namespaces{Items: []string{"team-a"}},
		"GET /v1/namespaces/team-a/deliveries?limit=50": view.Page[view.Delivery]{Items: []view.Delivery{dead, other}},
		"GET /v1/namespaces/team-a/events?limit=50":     view.Page[view.Event]{Items: []view.Event{{ID: "9b2e"}}},
		"GET /v1/namespaces/team-a/webhooks?limit=50":   view.Page[view.Webhook]{Items: []view.Webhook{{ID: "d4e5"}, {Result: "ping"}, {ID: "f6a7"}}},
		"GET /v1/namespaces/team-b/webhooks?limit=50":   view.Page[view.Webhook]{},
	})
	for line, want := range map[string]string{
		"deliveries list": "3f1c\n77aa\n", "deliveries list -A": "3f1c\n77aa\n", "events list": "9b2e\n", "webhooks list": "d4e5\nf6a7\n",
		"webhooks list -n team-b": "",
	} {
		if r := call(t, api, append(strings.Fields(line), "-o", "name")...); r.out != want || r.err != nil {
			t.Errorf("%s: error %v, output %q", line, r.err, r.out)
		}
	}
	if r := call(t, api, "deliveries", "show", "3f1c", "-o", "name"); r.err == nil || !strings.HasSuffix(r.err.Error(), "none of table, wide, json, yaml") {
		t.Errorf("of no list: error %v", r.err)
	}
}

// The clock of the machine may be behind the API's. Fails when what has happened is shown as what is still to come.
func TestWhatHasHappenedIsNotInTheFuture(t *testing.T) {
	now := time.Now()
	sent := view.DeliveryDetail{Delivery: dead}
	sent.State, sent.Time = view.StateSent, now.Add(300*time.Millisecond)
	var b strings.Builder
	if err := showDelivery(&b, &sent, now); err != nil || !strings.Contains(b.String(), "sent, 0s ago (") {
		t.Errorf("error %v, output %s", err, b.String())
	}
	for d, want := range map[time.Duration]string{-3 * time.Second: "0s", 119 * time.Second: "119s", 2 * time.Minute: "2m", 50 * time.Hour: "2d"} {
		if got := age(now.Add(-d), now); got != want {
			t.Errorf("%s: age %q, want %q", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{3 * time.Minute: "in 3m", -time.Second: "in 0s"} {
		if got := next(now.Add(d), now); got != want {
			t.Errorf("in %s: %q, want %q", d, got, want)
		}
	}
}
