package providertest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// About returns a notification about an object with the metadata. Its message is its reason.
func About(metadata map[string]string, severity, reason string) provider.Notification {
	return provider.Notification{DeliveryID: "d1", Event: event.Event{
		InvolvedObject: event.ObjectReference{Kind: "Kustomization", Namespace: "team-a", Name: "apps"},
		Severity:       severity, Reason: reason, Message: reason, Metadata: metadata, Timestamp: time.Now(),
	}}
}

// Statuses sends the course of an object at one commit to a Git host that keeps its statuses. A status must be written if its state or
// its reason differs from the last one, and none while the object is under way. written returns the number of written statuses.
func Statuses(t *testing.T, s provider.Sender, written func() int) {
	t.Helper()
	all := Notifications(t)
	progress, again := all["info"], all["info"]
	progress.Event.Reason = "Progressing"
	again.Event.Reason = "HealthCheckFailed"
	for i, step := range []struct {
		n       provider.Notification
		written int
	}{{progress, 0}, {all["error"], 1}, {all["error"], 1}, {again, 2}, {all["info"], 3}, {all["info"], 3}, {progress, 3}, {all["error"], 4}} {
		if err := s.Send(t.Context(), step.n); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if got := written(); got != step.written {
			t.Errorf("step %d: %d were written, want %d", i, got, step.written)
		}
	}
}

// LateComment writes a newer success as a comment, and then fails the test if a replayed failure, sent by a new Sender of the same Provider,
// replaces its text. comments returns the texts of the host's comments.
func LateComment(t *testing.T, metadata map[string]string, build func() provider.Sender, comments func() string) {
	t.Helper()
	late := About(metadata, "error", "HealthCheckFailed")
	late.Event.Timestamp, late.Replayed = time.Now().Add(-time.Minute), true
	SendAll(t, build(), About(metadata, "info", "ReconciliationSucceeded"))
	SendAll(t, build(), late)
	if got := comments(); !strings.Contains(got, "ReconciliationSucceeded") || strings.Contains(got, "HealthCheckFailed") {
		t.Errorf("got %s", got)
	}
}

// Refusals refuses each request with HTTP 403 and an answer, and compares the reason that is shown. build returns the Sender for the
// address.
func Refusals(t *testing.T, reasons map[string]string, build func(address string) (provider.Sender, error)) {
	t.Helper()
	for answer, want := range reasons {
		sink := NewSink(t, Says(http.StatusForbidden, answer))
		s, err := build(sink.URL)
		if err != nil {
			t.Fatal(err)
		}
		if got := event.AsError(s.Send(t.Context(), Notifications(t)["info"])); got == nil || got.Reason != want || got.Class != event.Permanent {
			t.Errorf("%s: got %v, want %q", answer, got, want)
		}
	}
}
