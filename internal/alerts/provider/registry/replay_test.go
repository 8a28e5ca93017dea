package registry_test

import (
	"net/http"
	"testing"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/registry"
	"notifier/internal/event"
)

// replayedAt is the time of the first event in the tests of replays.
var replayedAt = time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)

// of returns a notification about an object some time after replayedAt.
func of(uid, severity string, after time.Duration, replayed bool) provider.Notification {
	return provider.Notification{DeliveryID: "d", Replayed: replayed, Event: event.Event{
		Severity: severity, Reason: "R", Timestamp: replayedAt.Add(after),
		InvolvedObject: event.ObjectReference{Kind: "K", Namespace: "n", Name: "o" + uid, UID: uid},
	}}
}

// replayStep is a notification, and whether it is to reach the destination.
type replayStep struct {
	n    provider.Notification
	sent bool
}

// Fails when a failure that was given up, and is replayed after the recovery was sent, opens an incident that nothing closes. Also
// fails when a failure after the recovery, of another object, or that is no replay opens none.
func TestALateFailureOpensNoIncidentOfAnObjectThatRecovered(t *testing.T) {
	checkReplays(t, []replayStep{
		{of("1", event.SeverityError, 0, true), true}, // no recovery is known yet
		{of("1", event.SeverityInfo, time.Minute, false), true},
		{of("1", event.SeverityError, 0, true), false},
		{of("2", event.SeverityError, 0, true), true},
		{of("1", event.SeverityError, 2*time.Minute, true), true},
		{of("1", event.SeverityError, 0, false), true},
	})
}

// Fails when a recovery that is replayed after a newer failure was sent closes the incident of that. Also fails when a recovery after the
// failure, of another object, or that is no replay closes none.
func TestALateRecoveryClosesNoIncidentOfAnObjectThatFailedSince(t *testing.T) {
	checkReplays(t, []replayStep{
		{of("1", event.SeverityError, 0, false), true},
		{of("1", event.SeverityError, 2*time.Minute, false), true},
		{of("1", event.SeverityInfo, time.Minute, true), false},
		{of("2", event.SeverityInfo, time.Minute, true), true},
		{of("1", event.SeverityError, 0, true), true}, // replayed as well, and older than the newest
		{of("1", event.SeverityInfo, time.Minute, true), false},
		{of("1", event.SeverityInfo, 3*time.Minute, true), true},
		{of("1", event.SeverityInfo, 0, false), true},
	})
}

// Fails when a recovery that is replayed hides a newer one: a failure from between them, replayed as well, then opens an incident that nothing
// closes.
func TestALateRecoveryHidesNoNewerOne(t *testing.T) {
	checkReplays(t, []replayStep{
		{of("1", event.SeverityError, 0, false), true},
		{of("1", event.SeverityInfo, 3*time.Minute, false), true},
		{of("1", event.SeverityInfo, time.Minute, true), true},
		{of("1", event.SeverityError, 2*time.Minute, true), false},
		{of("1", event.SeverityError, 4*time.Minute, true), true},
	})
}

// checkReplays sends notifications to each type whose incidents stay open until a recovery is sent.
func checkReplays(t *testing.T, steps []replayStep) {
	t.Helper()
	for _, typ := range []string{"alertmanager", "datadog", "grafana", "incident.io", "opsgenie", "pagerduty", "sentry"} {
		cfg, sink := lead(t, typ, func(w http.ResponseWriter, r *http.Request) {
			if typ == "sentry" && r.Method == http.MethodGet {
				_, _ = w.Write([]byte(`[{"id":"1","organization":{"slug":"acme"}}]`))
				return
			}
			_, _ = w.Write([]byte("[]"))
		})
		s, err := registry.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range steps {
			before := len(sink.Requests())
			if err := s.Send(t.Context(), step.n); err != nil {
				t.Fatal(err)
			}
			if sent := len(sink.Requests()) > before; sent != step.sent {
				t.Errorf("%s: %s of %s at %v, replayed %v: sent %v", typ, step.n.Event.Severity, step.n.Event.InvolvedObject.UID,
					step.n.Event.Timestamp.Sub(replayedAt), step.n.Replayed, sent)
			}
		}
		_ = s.Close()
	}
}
