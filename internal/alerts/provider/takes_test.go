package provider

import (
	"strings"
	"testing"

	"notifier/internal/event"
)

// Fails when a recovery that only updates the status of a commit, as all of a Kustomization are, does not reach the types of incidents, or
// reaches a chat.
func TestTypesTakeTheEventsThatAreForThem(t *testing.T) {
	type takes struct{ all, messages, closings, incidents, outcomes, commits, changes bool }
	// read adds the types that take what people read.
	read := func(t takes) takes {
		t.all, t.messages, t.closings, t.incidents = true, true, true, true
		return t
	}
	update := func() Notification { return with("commit_status", "update", "revision", hash) }
	for name, c := range map[string]struct {
		n    Notification
		want takes
	}{
		"a success":          {Notification{}, read(takes{outcomes: true})},
		"a failure":          {failed(Notification{}), read(takes{outcomes: true})},
		"a commit's failure": {failed(with("revision", "main@sha1:"+hash)), read(takes{outcomes: true, commits: true})},
		"a chart's failure":  {failed(with("revision", "1.2.3")), read(takes{outcomes: true})},
		"a revision":         {with("revision", "main@sha1:"+hash), read(takes{outcomes: true})},
		"progress":           {reason(Notification{}, "Progressing"), takes{all: true, messages: true, closings: true}},
		"a wait":             {reason(Notification{}, "DependencyNotReady"), read(takes{})},
		"a commit":           {with("commit", hash), read(takes{outcomes: true, commits: true})},
		"no hash":            {with("commit", "c0ffee"), read(takes{outcomes: true})},
		"a change request":   {with("change_request", "7"), read(takes{outcomes: true, changes: true})},
		"two commits":        {annotated(with("commit", hash), "commit"), read(takes{outcomes: true, commits: true})},
		"two changes":        {annotated(with("change_request", "7"), "change_request"), read(takes{outcomes: true, changes: true})},
		"an author's change": {authored(with("change_request", "7"), "change_request"), read(takes{outcomes: true})},
		"an author's commit": {authored(with("commit", hash), "commit"), read(takes{outcomes: true})},
		"an author's update": {authored(with("commit_status", "update", "revision", hash), "commit_status"), read(takes{outcomes: true})},
		"an update":          {update(), takes{all: true, closings: true, incidents: true, outcomes: true, commits: true}},
		"a failed update":    {failed(update()), takes{all: true, commits: true}},
		"a waiting update":   {reason(update(), "DependencyNotReady"), takes{all: true, commits: true}},
		"an update's work":   {reason(update(), "Progressing"), takes{all: true, commits: true}},
	} {
		got := takes{
			TakesAll(c.n), TakesMessages(c.n), TakesMessagesAndClosings(c.n), TakesIncidents(c.n), TakesOutcomes(c.n), TakesCommits(c.n),
			TakesChangeRequests(c.n),
		}
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

func reason(n Notification, r string) Notification {
	n.Event.Reason = r
	return n
}

func authored(n Notification, key string) Notification {
	n.Authored = []string{key}
	return n
}

// annotated returns a notification whose object has an annotation of a key that the Alert's author wrote as well.
func annotated(n Notification, key string) Notification {
	n = authored(n, key)
	n.Annotated = []string{key}
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

// Fails when an Alert whose author wrote the key of an annotation is not advised of the annotation that its events lack.
func TestAnAlertsAuthorIsToldWhichAnnotationTheEventsLack(t *testing.T) {
	for name, c := range map[string]struct {
		takes Takes
		key   string
		n     Notification
	}{
		"no change request":          {TakesChangeRequests, ChangeRequestKey, Notification{}},
		"an author's change request": {TakesChangeRequests, ChangeRequestKey, authored(with(ChangeRequestKey, "8"), ChangeRequestKey)},
		"no commit":                  {TakesCommits, CommitKey, with("revision", "main@sha1:"+hash)},
		"an author's commit":         {TakesCommits, CommitKey, authored(with(CommitKey, hash), CommitKey)},
	} {
		if got := Lacks(c.takes, c.n); !strings.Contains(got, "had the annotation "+event.MetadataPrefix+c.key) {
			t.Errorf("%s: advised %q", name, got)
		}
	}
}
