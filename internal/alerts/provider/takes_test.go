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
