package alerts

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
	"notifier/internal/event/view"
)

// annotatedWith returns a record of an event whose object has an annotation of Flux's event API, none if the value is empty.
func annotatedWith(key, value string) *event.Record {
	return recordOf(func(r *event.Record) {
		r.Accepted, r.Event.Metadata = time.Now(), map[string]string{event.MetadataPrefix + key: value}
		if value == "" {
			delete(r.Event.Metadata, event.MetadataPrefix+key)
		}
	})
}

// Flux asks the annotation of the object whether a Git host is sent the event, and uses the merged metadata. Fails when an Alert's own
// value hides the annotation, when it stands in for a missing one, or when the delivery loses on the bus what the object said.
func TestTheAnnotationOfTheObjectDecidesWhatAGitHostIsSent(t *testing.T) {
	one, two := strings.Repeat("1", provider.SHA1Digits), strings.Repeat("2", provider.SHA1Digits)
	const update = "update"
	type takes struct{ messages, commits, changes bool }
	for name, c := range map[string]struct {
		key, object, author string
		want                takes
		value               string // as it is used
	}{
		"a change request of the object":     {provider.ChangeRequestKey, "7", "", takes{messages: true, changes: true}, "7"},
		"two change requests":                {provider.ChangeRequestKey, "7", "8", takes{messages: true, changes: true}, "8"},
		"the same change request twice":      {provider.ChangeRequestKey, "7", "7", takes{messages: true, changes: true}, "7"},
		"a change request of the author":     {provider.ChangeRequestKey, "", "8", takes{messages: true}, ""},
		"a commit of the object":             {provider.CommitKey, one, "", takes{messages: true, commits: true}, one},
		"two commits":                        {provider.CommitKey, one, two, takes{messages: true, commits: true}, two},
		"the same commit twice":              {provider.CommitKey, one, one, takes{messages: true, commits: true}, one},
		"a commit of the author":             {provider.CommitKey, "", two, takes{messages: true}, ""},
		"an update of the author":            {provider.CommitStatusKey, "", update, takes{messages: true}, ""},
		"an update of the author and object": {provider.CommitStatusKey, update, update, takes{messages: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := compiled(t, spec(func(s *AlertSpec) {
				if c.author != "" {
					s.Metadata = map[string]string{c.key: c.author}
				}
			}))
			routed, _ := address(annotatedWith(c.key, c.object), a)
			body, err := json.Marshal(routed)
			if err != nil {
				t.Fatal(err)
			}
			var d event.Delivery
			if err := json.Unmarshal(body, &d); err != nil {
				t.Fatal(err)
			}
			n := notification(&d)
			got := takes{provider.TakesMessages(n), provider.TakesCommits(n), provider.TakesChangeRequests(n)}
			if got != c.want || n.Reported(c.key) != c.value {
				t.Errorf("taken: %+v, want %+v; %s is %q, want %q", got, c.want, c.key, n.Reported(c.key), c.value)
			}
		})
	}
}

// Fails when a replay, of a dead letter or of a delivery that was sent, has lost that the object has the annotation as well.
func TestAReplayIsSentToTheGitHostThatTheAnnotationChose(t *testing.T) {
	for name, state := range map[string]view.State{"a dead letter": view.StateDead, "a sent delivery": view.StateSent} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, dest := newWorld(t), &refusing{}
				dest.mended.Store(state == view.StateSent)
				w.destinations.Put("team-a", "chat", &Destination{
					UID: "p-chat", Type: "generic", Version: "1", Sender: dest, Takes: provider.TakesChangeRequests,
				})
				d, _, stop := w.start()
				a := compiled(t, spec(func(s *AlertSpec) { s.Metadata = map[string]string{provider.ChangeRequestKey: "8"} }))
				w.alerts.Put(a)
				rec := annotatedWith(provider.ChangeRequestKey, "7")
				w.bus.records[rec.Seq] = rec
				first, _ := address(rec, a)
				first.ProviderUID = "p-chat"
				w.bus.publish(first)
				wait(time.Minute)
				dest.mended.Store(true)
				before := dest.count()
				result := replay(t, d, view.ReplayRequest{State: state})
				wait(time.Minute)
				if result.Replayed != 1 || dest.count() != before+1 {
					t.Fatalf("%+v; sent %d times", result, dest.count()-before)
				}
				if n := dest.got[before]; !n.Replayed || n.Reported(provider.ChangeRequestKey) != "8" {
					t.Errorf("%+v", n)
				}
				stop()
			})
		})
	}
}
