package provider

import (
	"testing"

	"notifier/internal/event"
)

func TestTypesTakeTheEventsThatFluxSendsThem(t *testing.T) {
	type takes struct{ all, messages, incidents, commits, changes bool }
	for name, c := range map[string]struct {
		n    Notification
		want takes
	}{
		"a success":          {Notification{}, takes{all: true, messages: true, incidents: true}},
		"a failure":          {Notification{Event: event.Event{Severity: "error"}}, takes{all: true, messages: true, incidents: true, commits: true}},
		"progress":           {Notification{Event: event.Event{Reason: "Progressing"}}, takes{all: true, messages: true}},
		"a commit":           {with("commit", "c0ffee"), takes{all: true, messages: true, incidents: true, commits: true}},
		"a status's update":  {with("commit_status", "update"), takes{all: true, commits: true}},
		"a change request":   {with("change_request", "7"), takes{all: true, messages: true, incidents: true, changes: true}},
		"an author's commit": {authored(with("commit", "c0ffee"), "commit"), takes{all: true, messages: true, incidents: true}},
		"an author's update": {authored(with("commit_status", "update"), "commit_status"), takes{all: true, messages: true, incidents: true}},
	} {
		got := takes{TakesAll(c.n), TakesMessages(c.n), TakesIncidents(c.n), TakesCommits(c.n), TakesChangeRequests(c.n)}
		if got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func with(key, value string) Notification {
	return Notification{Event: event.Event{Metadata: map[string]string{key: value}}}
}

func authored(n Notification, key string) Notification {
	n.Authored = []string{key}
	return n
}

// Fails when an event that comes before an object is well again closes its incident, or one that comes after does not.
func TestWhatOpensAndWhatClosesAnIncident(t *testing.T) {
	for _, c := range []struct {
		severity, reason  string
		failed, recovered bool
	}{
		{"error", "HealthCheckFailed", true, false},
		{"error", "Progressing", true, false},
		{"info", "ReconciliationSucceeded", false, true},
		{"info", "NewArtifact", false, true},
		{"trace", "ArtifactUpToDate", false, true},
		{"info", "Progressing", false, false},
		{"info", "DependencyNotReady", false, false},
		{"info", "RollbackSucceeded", false, false},
	} {
		n := Notification{Event: event.Event{Severity: c.severity, Reason: c.reason}}
		if got := Failed(n); got != c.failed {
			t.Errorf("%s %s: failed %t", c.severity, c.reason, got)
		}
		if got := Recovered(n); got != c.recovered {
			t.Errorf("%s %s: recovered %t", c.severity, c.reason, got)
		}
		if got := TakesOutcomes(n); got != (c.failed || c.recovered) {
			t.Errorf("%s %s: taken %t", c.severity, c.reason, got)
		}
	}
}

// Fails when two objects without a UID share an identity, or the UID does not count.
func TestObjectsHaveAnIdentity(t *testing.T) {
	id := func(kind, name, uid string) string {
		return ObjectID(Notification{Event: event.Event{
			InvolvedObject: event.ObjectReference{Kind: kind, Namespace: "team-a", Name: name, UID: uid},
		}})
	}
	if got := id("A", "b", "u-1"); got != "u-1" {
		t.Errorf("with a UID: %q", got)
	}
	if id("A", "b", "") == id("A", "c", "") || id("A", "b", "") == "" {
		t.Error("without a UID two objects are one")
	}
}
