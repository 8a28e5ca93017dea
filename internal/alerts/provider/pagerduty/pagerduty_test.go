package pagerduty

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

const routingKey = "0123456789abcdef0123456789abcdef"

// vendor is the Events API by its documentation. It refuses all other requests.
type vendor struct {
	alerts  providertest.IncidentLog
	mu      sync.Mutex
	changes []string
}

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var fault string
	switch {
	case r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || len(body) > 512<<10:
		fault = "request"
	case r.URL.Path == "/v2/enqueue":
		fault = v.enqueue(body)
	case r.URL.Path == "/v2/change/enqueue":
		fault = v.change(body)
	default:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if fault != "" {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]any{"status": "invalid event", "message": "Event object is invalid", "errors": []string{fault}})
		return
	}
	w.WriteHeader(http.StatusAccepted)
	_, _ = io.WriteString(w, `{"status":"success","message":"Event processed","dedup_key":"x"}`)
}

type wirePayload struct {
	Summary, Source, Severity, Timestamp, Component, Group, Class string
	Details                                                       map[string]any `json:"custom_details"`
}

func (p wirePayload) fault() string {
	_, err := time.Parse(time.RFC3339, p.Timestamp)
	switch {
	case p.Summary == "" || utf8.RuneCountInString(p.Summary) > 1024:
		return "'payload.summary' is missing or blank"
	case p.Source == "":
		return "source"
	case p.Timestamp != "" && err != nil:
		return "timestamp"
	}
	return ""
}

func (v *vendor) enqueue(body []byte) string {
	var e struct {
		Key     string `json:"routing_key"`
		Action  string `json:"event_action"`
		Dedup   string `json:"dedup_key"`
		Payload *wirePayload
	}
	if providertest.Decode(body, &e) != nil || e.Dedup == "" || utf8.RuneCountInString(e.Dedup) > 255 {
		return "event"
	}
	if e.Key != routingKey {
		return "Length of 'routing_key' is incorrect (should be 32 characters)"
	}
	switch e.Action {
	case "trigger":
		if e.Payload == nil || !slices.Contains([]string{"critical", "error", "warning", "info"}, e.Payload.Severity) {
			return "payload"
		}
		if fault := e.Payload.fault(); fault != "" {
			return fault
		}
		v.alerts.Open(e.Dedup)
	case "resolve":
		v.alerts.Close(e.Dedup)
	default:
		return "'event_action' is invalid"
	}
	return ""
}

func (v *vendor) change(body []byte) string {
	var e struct {
		Key     string `json:"routing_key"`
		Payload struct {
			Summary, Source, Timestamp string
			Details                    map[string]any `json:"custom_details"`
		}
	}
	if providertest.Decode(body, &e) != nil || e.Key != routingKey {
		return "event"
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.changes = append(v.changes, e.Payload.Summary)
	return wirePayload{Summary: e.Payload.Summary, Source: e.Payload.Source, Timestamp: e.Payload.Timestamp}.fault()
}

func config(address string) provider.Config {
	return provider.Config{Type: "pagerduty", Address: address, Channel: routingKey, Network: providertest.Loopback()}
}

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New: provider.Builder(New), Config: provider.Config{Type: "pagerduty", Channel: routingKey}, Serve: new(vendor).ServeHTTP,
	})
}

func TestPayloads(t *testing.T) {
	sink := providertest.NewSink(t, new(vendor).ServeHTTP)
	providertest.Golden(t, "pagerduty", providertest.NewSender(t, New, config(sink.URL+"/ignored?x=y")), sink)
}

// Fails when the key is not the object's, so that a recovery resolves nothing or a further failure pages anew.
func TestARecoveryResolvesTheFailuresAlert(t *testing.T) {
	v := new(vendor)
	sink := providertest.NewSink(t, v.ServeHTTP)
	providertest.Incidents(t, func() provider.Sender { return providertest.NewSender(t, New, config(sink.URL)) }, v.alerts.Log)
}

// Fails when the Secret's token is not used as the key, or takes precedence over the channel, which Flux uses.
func TestTheKeyIsTheChannelElseTheToken(t *testing.T) {
	sink := providertest.NewSink(t, new(vendor).ServeHTTP)
	for want, cfg := range map[string]provider.Config{
		"": {Token: routingKey},
		"HTTP 400: Length of 'routing_key' is incorrect (should be 32 characters)": {Channel: "short", Token: routingKey},
	} {
		cfg.Address, cfg.Network = sink.URL, providertest.Loopback()
		err := providertest.NewSender(t, New, cfg).Send(t.Context(), providertest.Notifications(t)["error"])
		if got := event.AsError(err); (err != nil || want != "") && got.Reason != want {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := New(provider.Config{Address: sink.URL}); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("without a key: %v", err)
	}
}

// Fails when a refused change hides that the alert was resolved, or a change is sent before its alert was resolved.
func TestAResolutionAndItsChangeAreTwoOutcomes(t *testing.T) {
	for refused, want := range map[string]struct {
		paths  []string
		reason string
	}{
		"/v2/change/enqueue": {[]string{"/v2/enqueue", "/v2/change/enqueue"}, "change event: HTTP 503"},
		"/v2/enqueue":        {[]string{"/v2/enqueue"}, "HTTP 503"},
	} {
		sink := providertest.NewSink(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == refused {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		err := providertest.NewSender(t, New, config(sink.URL)).Send(t.Context(), providertest.Notifications(t)["info"])
		got := event.AsError(err)
		if got.Reason != want.reason || got.Class != event.Retry || got.RetryAfter != 7*time.Second {
			t.Errorf("%s refused: got %+v", refused, got)
		}
		var paths []string
		for _, r := range sink.Requests() {
			paths = append(paths, r.Path)
		}
		if diff := cmp.Diff(want.paths, paths); diff != "" {
			t.Errorf("%s refused (-want +got):\n%s", refused, diff)
		}
	}
}

// Fails when an event whose every byte has to be escaped exceeds PagerDuty's limit.
func TestTheWorstTextFits(t *testing.T) {
	worst := strings.Repeat("\x01", 1<<16)
	n := providertest.Notifications(t)["error"]
	n.Event.Message, n.Event.Reason, n.Event.ReportingController, n.Event.InvolvedObject.UID = worst, worst, worst, strings.Repeat("\x01", 253)
	n.Event.Metadata = map[string]string{}
	for i := range 100 {
		n.Event.Metadata[strings.Repeat(string(rune('a'+i)), 1000)] = worst
	}
	sink := providertest.NewSink(t, new(vendor).ServeHTTP)
	for _, severity := range []string{"error", "info"} {
		n.Event.Severity = severity
		if err := providertest.NewSender(t, New, config(sink.URL)).Send(t.Context(), n); err != nil {
			t.Errorf("%s: %v", severity, err)
		}
	}
}

func TestOnlyPagerDutysOwnHostsAreLimited(t *testing.T) {
	for address, limited := range map[string]bool{
		"https://events.pagerduty.com": true, "https://EVENTS.eu.pagerduty.com./v2": true,
		"https://pagerduty.com.example.com": false, "https://notpagerduty.com": false,
	} {
		if got := providertest.NewSender(t, New, config(address)).Limit(); (got.Rate > 0) != limited {
			t.Errorf("%s: %+v", address, got)
		}
	}
}
