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
		"a failure":          {Notification{Event: event.Event{Severity: "error"}}, takes{all: true, messages: true, incidents: true}},
		"a commit's failure": {failed(with("revision", "main@sha1:"+hash)), takes{all: true, messages: true, incidents: true, commits: true}},
		"a chart's failure":  {failed(with("revision", "1.2.3")), takes{all: true, messages: true, incidents: true}},
		"a revision":         {with("revision", "main@sha1:"+hash), takes{all: true, messages: true, incidents: true}},
		"progress":           {Notification{Event: event.Event{Reason: "Progressing"}}, takes{all: true, messages: true}},
		"a commit":           {with("commit", hash), takes{all: true, messages: true, incidents: true, commits: true}},
		"no hash":            {with("commit", "c0ffee"), takes{all: true, messages: true, incidents: true}},
		"a status's update":  {with("commit_status", "update", "revision", hash), takes{all: true, commits: true}},
		"a change request":   {with("change_request", "7"), takes{all: true, messages: true, incidents: true, changes: true}},
		"an author's commit": {authored(with("commit", hash), "commit"), takes{all: true, messages: true, incidents: true}},
		"an author's update": {authored(with("commit_status", "update", "revision", hash), "commit_status"), takes{all: true, messages: true, incidents: true}},
	} {
		got := takes{TakesAll(c.n), TakesMessages(c.n), TakesIncidents(c.n), TakesCommits(c.n), TakesChangeRequests(c.n)}
		if got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

// with returns a notification with metadata, given as keys and values in turn.
func with(pairs ...string) Notification {
	metadata := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		metadata[pairs[i]] = pairs[i+1]
	}
	return Notification{Event: event.Event{Metadata: metadata}}
}

func failed(n Notification) Notification {
	n.Event.Severity = event.SeverityError
	return n
}

func authored(n Notification, key string) Notification {
	n.Authored = []string{key}
	return n
}

// Fails when an event before an object's recovery closes its incident, or its recovery does not.
func TestErrorsOpenAnIncidentAndRecoveriesCloseIt(t *testing.T) {
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
