package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"notifier/test/env"
)

// Fails when `kubectl get` does not show that working objects work and since when, when it shows a problem of them, or
// when a time is before the object's creation. The notification waits until its destination is up, and is shown as
// waiting meanwhile.
func TestKubectlGetShowsWhatWorksAndWhatWaits(t *testing.T) {
	s := setUp(t)
	sink := s.AlertedSink()
	shows := func(kind, name string, want map[string]string) {
		s.Helper()
		s.Must(env.Eventually(s.Within(soon), func(ctx context.Context) error { return s.shows(ctx, kind, name, want) }))
	}
	shows("Alert", "all", map[string]string{"Ready": "True", "Matched": "", "Last": "", "Pending": "", "Dead": "", "Problem": ""})
	shows("Provider", "all", map[string]string{"Ready": "True", "Delivering": "", "Last": "", "Pending": "", "Problem": ""})
	s.failure("one")
	s.waitMessages(sink, "one")
	shows("Alert", "all", map[string]string{"Ready": "True", "Matched": "*", "Last": "*", "Pending": "", "Dead": "", "Problem": ""})
	shows("Provider", "all", map[string]string{"Ready": "True", "Delivering": "True", "Last": "*", "Pending": "", "Problem": ""})
	sink.Answer(env.Answer{Status: http.StatusServiceUnavailable})
	s.failure("two")
	shows("Provider", "all", map[string]string{"Ready": "True", "Delivering": "False", "Last": "*", "Pending": "1", "Problem": "HTTP 503"})
	sink.Answer(env.Answer{})
	s.waitMessages(sink, "two")
	shows("Provider", "all", map[string]string{"Delivering": "True", "Last": "*", "Pending": "", "Problem": ""})

	path := s.Receiver(s.Tenant, "app", "token", "")
	shows("Receiver", "app", map[string]string{"Ready": "True", "Accepted": "", "Last": "", "Problem": "", "Status": "Receiver initialized*"})
	s.Push(path, "another", http.StatusBadRequest)
	shows("Receiver", "app", map[string]string{"Ready": "True", "Accepted": "", "Last": "", "Problem": "the last webhook was not accepted*"})
	s.Push(path, "token", http.StatusOK)
	shows("Receiver", "app", map[string]string{"Ready": "True", "Accepted": "1", "Last": "*", "Problem": ""})
}

// shows returns nil if `kubectl get` shows columns as wanted. A "*" at the end matches anything; alone it matches an age
// of at most the object's.
func (s *fixture) shows(ctx context.Context, kind, name string, want map[string]string) error {
	shown, err := s.columns(ctx, kind, name)
	if err != nil {
		return err
	}
	for column, w := range want {
		got := shown[column]
		prefix, open := strings.CutSuffix(w, "*")
		if got != w && (!open || got == "" || !strings.HasPrefix(got, prefix)) {
			return fmt.Errorf("%s of %s is %q, want %q: %v", strings.ToUpper(column), kind, got, w, shown)
		}
	}
	obj, err := s.Tenant.Get(ctx, kind, name)
	if err != nil {
		return err
	}
	status, _ := obj.Object["status"].(map[string]any)
	for _, field := range []string{"lastDelivered", "lastMatched", "lastSent"} {
		if at, ok := status[field].(string); ok && at < obj.GetCreationTimestamp().UTC().Format("2006-01-02T15:04:05Z") {
			return fmt.Errorf("%s is %s, before the object was made at %s", field, at, obj.GetCreationTimestamp())
		}
	}
	return nil
}
