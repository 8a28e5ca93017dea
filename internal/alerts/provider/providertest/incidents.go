package providertest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// Incidents lets one object succeed, fail, recover, fail again and recover. It compares the opened and closed incidents at the
// destination, which log returns in words: "opened", "closed", "opened", "closed", each once. All recoveries but the last only update
// the status of a commit, as those of a Kustomization do. Each notification is sent twice, as after a lost answer. Each time build
// makes a new Sender, as after a restart.
func Incidents(t *testing.T, build func() provider.Sender, log func() []string) {
	t.Helper()
	all := Notifications(t)
	for i, step := range []struct {
		name, reason, revision, commitStatus string
		want                                 []string
	}{
		{"info", "ReconciliationSucceeded", "1", "update", nil},
		{"error", "HealthCheckFailed", "2", "", []string{"opened"}},
		{"info", "DependencyNotReady", "2", "", []string{"opened"}},
		{"info", "ReconciliationSucceeded", "3", "update", []string{"opened", "closed"}},
		{"info", "ReconciliationSucceeded", "4", "update", []string{"opened", "closed"}},
		{"error", "HealthCheckFailed", "2", "", []string{"opened", "closed", "opened"}},
		{"info", "InstallSucceeded", "5", "", []string{"opened", "closed", "opened", "closed"}},
	} {
		n := all[step.name]
		n.Event.Reason = step.reason
		n.Event.Timestamp = n.Event.Timestamp.Add(time.Duration(i) * time.Minute)
		n.Event.Metadata = map[string]string{"revision": step.revision}
		if step.commitStatus != "" {
			n.Event.Metadata[provider.CommitStatusKey] = step.commitStatus
		}
		n.DeliveryID = fmt.Sprintf("%032x", i)
		for range 2 {
			s := build()
			if err := s.Send(t.Context(), n); err != nil {
				t.Fatalf("step %d: %v (%v)", i, err, event.AsError(err).Unwrap())
			}
			_ = s.Close()
			if diff := cmp.Diff(step.want, log()); diff != "" {
				t.Fatalf("after step %d (-want +got):\n%s", i, diff)
			}
		}
	}
}

// IncidentLog has the open incidents of a destination, by key, and a log of openings and closings as Incidents compares it. The zero
// value is ready to use, also by several goroutines.
type IncidentLog struct {
	mu   sync.Mutex
	open map[string]bool
	log  []string
}

// Open opens the incident with a key, unless it is open.
func (l *IncidentLog) Open(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[key] {
		return
	}
	if l.open == nil {
		l.open = map[string]bool{}
	}
	l.open[key] = true
	l.log = append(l.log, "opened")
}

// Close closes the incident with a key and reports whether it was open.
func (l *IncidentLog) Close(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open[key] {
		return false
	}
	delete(l.open, key)
	l.log = append(l.log, "closed")
	return true
}

// Log returns the openings and closings in order.
func (l *IncidentLog) Log() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.log)
}
