package registry_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/registry"
	"notifier/internal/event"
)

// recorded returns the events that kustomize-controller posted in a recording, with the metadata that a Provider is sent.
func recorded(t *testing.T, name string) []event.Event {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var all []event.Event
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e event.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		metadata := map[string]string{}
		for key, value := range e.Metadata {
			metadata[strings.TrimPrefix(key, "kustomize.toolkit.fluxcd.io/")] = value
		}
		e.Metadata = metadata
		all = append(all, e)
	}
	return all
}

// service is an alerting service of any type. It has a word for each request that writes.
type service struct {
	typ string
	// open is the alert or the region that a look-up returns.
	open  string
	words []string
}

// opens and closes are parts of the requests, by which they are told apart. Those of Alertmanager differ by their times alone.
var (
	opens = map[string]string{
		"datadog": `"alert_type":"error"`, "grafana": `"severity: error"`, "incident.io": `"status":"firing"`, "opsgenie": `POST /v2/alerts {`,
		"pagerduty": `"event_action":"trigger"`, "sentry": `"level":"error"`,
	}
	closes = map[string]string{
		"datadog": `"alert_type":"success"`, "grafana": `"timeEnd"`, "incident.io": `"status":"resolved"`, "opsgenie": `/close {`,
		"pagerduty": `"event_action":"resolve"`, "sentry": `"status":"resolved"`,
	}
)

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		found := s.open
		if s.typ == "sentry" {
			found = `{"id":"1","organization":{"slug":"acme"}}`
		}
		_, _ = w.Write([]byte("[" + found + "]"))
		return
	}
	raw, _ := io.ReadAll(r.Body)
	text := fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, raw)
	has := func(part string) bool { return part != "" && strings.Contains(text, part) }
	opened, closed := has(opens[s.typ]), has(closes[s.typ])
	if s.typ == "alertmanager" {
		var alerts []struct{ StartsAt, EndsAt time.Time }
		_ = json.Unmarshal(raw, &alerts)
		opened = len(alerts) == 1 && alerts[0].EndsAt.After(time.Now())
		closed = len(alerts) == 1 && alerts[0].EndsAt.Sub(alerts[0].StartsAt) < time.Minute
	}
	switch {
	case closed:
		s.open, s.words = "", append(s.words, "closed")
		_, _ = w.Write([]byte(`{"status":"resolved"}`))
	case opened:
		s.open, s.words = strings.Trim(string(raw), "[]"), append(s.words, "opened")
	default:
		s.words = append(s.words, "told")
	}
}

// Fails when the recovery of a Kustomization does not close what its failure opened. Its only event is "Reconciliation finished", which
// updates the status of a commit. Also fails when that event, which comes at every interval, is sent again, is sent as anything else, or
// reaches a chat.
func TestARecordedRecoveryOfAKustomizationClosesWhatItsFailureOpened(t *testing.T) {
	events := recorded(t, "flapping-at-one-revision")
	for _, later := range []string{"10m", "20m"} {
		again := events[len(events)-1]
		after, err := time.ParseDuration(later)
		if err != nil {
			t.Fatal(err)
		}
		again.Timestamp, again.Message = again.Timestamp.Add(after), "Reconciliation finished in "+later
		events = append(events, again)
	}
	told := map[string]bool{"datadog": true, "grafana": true, "sentry": true} // work under way
	for _, typ := range []string{"alertmanager", "datadog", "grafana", "incident.io", "opsgenie", "pagerduty", "sentry", "slack"} {
		want := []string{"opened", "told", "closed", "opened", "told", "closed"}
		switch {
		case typ == "slack":
			want = []string{"told", "told", "told", "told"}
		case !told[typ]:
			want = []string{"opened", "closed", "opened", "closed"}
		}
		for _, restarts := range []bool{false, true} {
			v := &service{typ: typ}
			cfg, _ := lead(t, typ, v.ServeHTTP)
			cfg.Address = strings.Replace(cfg.Address, "/owner/name", map[string]string{"opsgenie": "/v2/alerts"}[typ], 1)
			s, err := registry.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			for i, e := range events {
				n := provider.Notification{DeliveryID: fmt.Sprintf("%032x", i), Event: e}
				if !registry.Takes(typ)(n) {
					continue
				}
				if restarts && i == len(events)-2 { // what is sent once more closes nothing
					_ = s.Close()
					if s, err = registry.New(cfg); err != nil {
						t.Fatal(err)
					}
				}
				if err := s.Send(t.Context(), n); err != nil {
					t.Fatalf("%s, event %d: %v", typ, i, err)
				}
			}
			_ = s.Close()
			want := want
			if restarts && typ != "slack" && typ != "alertmanager" && typ != "grafana" { // these two look up what is open
				want = append(slices.Clone(want), "closed")
			}
			if diff := cmp.Diff(want, v.words); diff != "" {
				t.Errorf("%s, a restart %v (-want +got):\n%s", typ, restarts, diff)
			}
		}
	}
}
