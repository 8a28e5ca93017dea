package events

import (
	"net/http"
	"testing"
	"time"

	"notifier/internal/event"
)

// A source fails, recovers and fails in the same words, all within the stream's window of duplicates, as recorded. Fails when publishAgain
// ignores the last event, or believes an event without proof (E9).
func TestAFlapInTheSameWordsIsNoDuplicate(t *testing.T) {
	began := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	send := func(severity, message string, at time.Duration, change func(*event.Event)) *http.Request {
		return post(posted(func(e *event.Event) {
			e.Severity, e.Message, e.Timestamp = severity, message, began.Add(at)
			if change != nil {
				change(e)
			}
		}))
	}
	bus := &eventLog{}
	h := newEvents(t, bus, nil)
	unknown := func(e *event.Event) { e.InvolvedObject.UID = "forged" }
	for i, step := range []struct {
		request *http.Request
		want    int
		why     string
	}{
		{send("error", "git is down", 0, nil), 202, "the first failure"},
		{send("error", "git is down", 3*time.Second, nil), 429, "repeated while it stands"},
		{send("info", "stored", 5*time.Second, unknown), 202, "a recovery that the object's UID does not bear out"},
		{send("error", "git is down", 6*time.Second, nil), 429, "it is no reason to believe the failure once more"},
		{send("info", "stored", 10*time.Second, nil), 202, "the recovery"},
		{send("error", "git is down", 3*time.Second, nil), 429, "the first failure once more, sent before the recovery"},
		{send("error", "git is down", 15*time.Second, nil), 202, "the second failure"},
		{send("error", "git is down", 18*time.Second, nil), 429, "repeated while it stands"},
		{send("info", "stored", 20*time.Second, nil), 202, "the second recovery"},
	} {
		if resp := do(h, step.request); resp.StatusCode != step.want {
			t.Errorf("step %d, %s: answered %d, want %d", i, step.why, resp.StatusCode, step.want)
		}
	}
	ids := map[string]bool{}
	for _, r := range bus.records {
		ids[r.ID] = true
	}
	if len(ids) != 5 {
		t.Errorf("%d IDs for 5 events", len(ids))
	}
}

// policies is a cache that has the object as an ImagePolicy.
type policies struct{ cache }

func (p policies) Lookup(_, namespace, name string) (event.Object, bool) {
	return p.cache.Lookup("Kustomization", namespace, name)
}

// Fails when the recovery of an ImagePolicy that had lost its tags, to the image from before, is taken for a repetition.
func TestTheRecoveryOfAnImagePolicyIsNoDuplicate(t *testing.T) {
	began := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	h := newEvents(t, &eventLog{}, func(o *Options) { o.Objects = policies{} })
	for i, step := range [][3]string{
		{"info", "Succeeded", "Latest image tag for registry.example/app resolved to 1.0.0"},
		{"error", "DependencyNotReady", "retrying in 30s error: no tags in database"},
		{"info", "Succeeded", "Latest image tag for registry.example/app resolved to 1.0.0"},
	} {
		r := post(posted(func(e *event.Event) {
			e.InvolvedObject.APIVersion, e.InvolvedObject.Kind = "image.toolkit.fluxcd.io/v1", "ImagePolicy"
			e.Severity, e.Reason, e.Message, e.Metadata = step[0], step[1], step[2], nil
			e.Timestamp = began.Add(time.Duration(i) * time.Second)
		}))
		if resp := do(h, r); resp.StatusCode != 202 {
			t.Errorf("%v: answered %d, want 202", step, resp.StatusCode)
		}
	}
}

// An event that was published before is news only after the opposite outcome of the same object, proved and not newer (E9).
func TestE9OnlyAProvedOppositeMakesARepetitionNews(t *testing.T) {
	began := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	failed := &event.Record{Known: true, Outcome: event.OutcomeFailed, Event: event.Event{
		InvolvedObject: event.ObjectReference{Kind: "Kustomization", Namespace: "team-a", Name: "app", UID: "uid-1"}, Timestamp: began,
	}}
	for name, tc := range map[string]struct {
		change func(last *event.Record)
		want   bool
	}{
		"a recovery":                  {func(*event.Record) {}, true},
		"a recovery before":           {func(last *event.Record) { last.Event.Timestamp = began.Add(-time.Second) }, true},
		"a recovery that came after":  {func(last *event.Record) { last.Event.Timestamp = began.Add(time.Second) }, false},
		"the same outcome":            {func(last *event.Record) { last.Outcome = event.OutcomeFailed }, false},
		"an event without an outcome": {func(last *event.Record) { last.Outcome = event.OutcomeNone }, false},
		"an object that nobody knew":  {func(last *event.Record) { last.Known = false }, false},
		"a recovery that is doubted":  {func(last *event.Record) { last.Doubted = true }, false},
		"another object of the name":  {func(last *event.Record) { last.Event.InvolvedObject.UID = "uid-0" }, false},
	} {
		last := *failed
		last.Outcome = event.OutcomeSucceeded
		tc.change(&last)
		if got := opposite(&last, failed); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}
