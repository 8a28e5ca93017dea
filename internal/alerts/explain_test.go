package alerts

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/filter"
	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// drawn draws Alerts, Providers and events from small sets of values, so that every rule decides often.
type drawn struct {
	*rand.Rand
	made time.Time
}

func pick[T any](r drawn, of ...T) T { return of[r.IntN(len(of))] }

// alert draws the spec of an Alert of team-a.
func (r drawn) alert(n int) AlertSpec {
	s := AlertSpec{
		Namespace: "team-a", Name: fmt.Sprint("alert-", n), UID: fmt.Sprint("uid-", n), Provider: fmt.Sprint("provider-", r.IntN(6)),
		Severity: pick(r, "", "info", "error"), Suspend: r.IntN(12) == 0, Created: r.made.Add(time.Duration(r.IntN(8)-6) * time.Hour),
	}
	for range 1 + r.IntN(3) {
		s.Sources = append(s.Sources, Source{
			Kind: pick(r, "Kustomization", "Kustomization", "HelmRelease"), Name: pick(r, "*", "app", "db"),
			Namespace: pick(r, "", "", "team-a", "team-b"), MatchLabels: pick(r, nil, nil, map[string]string{"tier": "web"}, map[string]string{}),
		})
	}
	patterns := []string{"applied", "^rev", "sha[0-9]:a", "(fail|time)ed? ?(out)?", "x"}
	for range r.IntN(3) {
		s.Inclusion = append(s.Inclusion, pick(r, patterns...))
	}
	for range r.IntN(2) {
		s.Exclusion = append(s.Exclusion, pick(r, patterns...))
	}
	if r.IntN(4) == 0 {
		s.Metadata = map[string]string{provider.CommitStatusKey: "mine"}
	}
	return s
}

// destination draws a Provider, nil for a missing one.
func (r drawn) destination(n int) *Destination {
	d := &Destination{UID: fmt.Sprint("p-", n), Version: "1", Suspended: r.IntN(5) == 0}
	switch r.IntN(5) {
	case 0:
		return nil
	case 1:
		d.Unsupported, d.NotReady = true, "unsupported"
	case 2:
		d.NotReady, d.Takes = "not ready", provider.TakesMessages
	case 3:
		d.Sender, d.Takes = &sink{}, provider.TakesMessages
	default:
		d.Sender = &sink{}
	}
	return d
}

func (r drawn) record(n int) *event.Record {
	return recordOf(func(rec *event.Record) {
		rec.ID, rec.Seq, rec.Accepted = fmt.Sprint("event-", n), uint64(n), r.made
		rec.Event.InvolvedObject.Kind = pick(r, "Kustomization", "HelmRelease")
		rec.Event.InvolvedObject.Name = pick(r, "app", "db", "cache")
		rec.Event.Severity = pick(r, "info", "error", "trace")
		rec.Event.Message = pick(r, "applied rev", "revision sha1:abc", "failed", "timed out", "")
		rec.Labels = pick(r, nil, map[string]string{}, map[string]string{"tier": "web", "x": "y"}, map[string]string{"tier": "db"})
		rec.Event.Metadata = map[string]string{event.MetadataPrefix + provider.CommitStatusKey: pick(r, "update", "")}
	})
}

// fieldThatDecides returns, by the documentation of the fields, the field that keeps an event from being sent, none if it is sent.
func fieldThatDecides(s AlertSpec, d *Destination, rec *event.Record) string {
	o := rec.Event.InvolvedObject
	selects := slices.ContainsFunc(s.Sources, func(src Source) bool {
		fits := src.MatchLabels == nil
		if !fits && rec.Labels != nil {
			fits = true
			for k, v := range src.MatchLabels {
				fits = fits && rec.Labels[k] == v
			}
		}
		return fits && src.Kind == o.Kind && (src.Name == "*" || src.Name == o.Name) && (src.Namespace == "" || src.Namespace == o.Namespace)
	})
	hits := func(list []string) bool {
		return slices.ContainsFunc(list, func(expr string) bool { return regexp.MustCompile(expr).MatchString(rec.Event.Message) })
	}
	_, authored := s.Metadata[provider.CommitStatusKey]
	update := rec.Event.Metadata[event.MetadataPrefix+provider.CommitStatusKey] == "update" && !authored
	switch {
	case s.Suspend:
		return "spec.suspend"
	case !selects:
		return "spec.eventSources"
	case s.Severity == "error" && rec.Event.Severity != "error":
		return "spec.eventSeverity"
	case s.Created.After(rec.Accepted):
		return "metadata.creationTimestamp"
	case len(s.Inclusion) > 0 && !hits(s.Inclusion):
		return "spec.inclusionList"
	case hits(s.Exclusion):
		return "spec.exclusionList"
	case d == nil:
		return ""
	case d.Suspended:
		return "provider.spec.suspend"
	case d.Unsupported, d.Takes != nil && update:
		return "provider.spec.type"
	}
	return ""
}

// TestExplainAgreesWithTheRouter compares Explain's answers about 10,000 pairs of an Alert and an event with the router's actions, and
// both with the fields' documentation. Fails when any rule of decide, of the index or of selects is left out, and when Explain decides
// anything by itself.
func TestExplainAgreesWithTheRouter(t *testing.T) {
	const rounds, each = 500, 20
	decided := map[string]int{}
	for round := range rounds {
		draw := drawn{rand.New(rand.NewPCG(11, uint64(round))), time.Now().Add(-24 * time.Hour)}
		r := newRouted(t)
		specs, providers := map[string]AlertSpec{}, map[string]*Destination{}
		for n := range 6 {
			if d := draw.destination(n); d != nil {
				providers[fmt.Sprint("provider-", n)] = d
				r.destinations.Put("team-a", fmt.Sprint("provider-", n), d)
			}
		}
		for n := range each {
			s := draw.alert(n)
			specs[s.Name] = s
			r.put(t, s)
		}
		rec := draw.record(round + 1)
		if err := r.route(t.Context(), []*event.Record{rec}); err != nil {
			t.Fatal(err)
		}
		sent := map[string]string{}
		for _, d := range r.events.published {
			sent[d.Alert] = d.ID
		}
		decisions := r.Explain(t.Context(), rec)
		if len(decisions) != each {
			t.Fatalf("%d decisions about %d Alerts", len(decisions), each)
		}
		for _, d := range decisions {
			s := specs[d.Alert]
			want := fieldThatDecides(s, providers[s.Provider], rec)
			id, did := sent[d.Alert]
			if did != d.Matched || d.Field != want || did && id != d.DeliveryID || d.Why == "" || d.DeliveryID == "" || d.Provider != s.Provider {
				t.Fatalf("round %d, sent %t, wanted field %q: %+v\nof %+v\nabout %+v", round, did, want, d, s, rec)
			}
			decided[d.Field]++
		}
	}
	for _, ruling := range rulings {
		if n := decided[ruling.field]; n < 50 && ruling.field != "spec" {
			t.Errorf("%q decided only %d times", ruling.field, n)
		}
	}
	t.Logf("%v", decided)
}

// TestExplainSaysWhichPartOfASourceDecides fails when selects prefers another part.
func TestExplainSaysWhichPartOfASourceDecides(t *testing.T) {
	kind, name := Source{Kind: "HelmRelease", Name: "*"}, Source{Kind: "Kustomization", Name: "db"}
	labels := Source{Kind: "Kustomization", Name: "*", MatchLabels: map[string]string{"tier": "web"}}
	foreign := Source{Kind: "Kustomization", Name: "app", Namespace: "team-b"}
	for want, tc := range map[string]struct {
		sources []Source
		known   map[string]string
	}{
		"has the kind":                 {[]Source{kind}, nil},
		"has its name":                 {[]Source{kind, name}, nil},
		"names another namespace":      {[]Source{kind, foreign, name}, nil},
		"labels were not known":        {[]Source{labels, foreign, name}, nil},
		"not all among the object's l": {[]Source{name, labels, foreign}, map[string]string{"tier": "db"}},
	} {
		r := newRouted(t)
		r.put(t, spec(func(s *AlertSpec) { s.Sources = tc.sources }))
		got := r.Explain(t.Context(), recordOf(func(rec *event.Record) { rec.Labels = tc.known }))
		if len(got) != 1 || got[0].Field != "spec.eventSources" || !strings.Contains(got[0].Why, want) {
			t.Errorf("%s: %+v", want, got)
		}
	}
	r := newRouted(t)
	inert := Inert(spec(nil))
	r.alerts.Put(inert)
	if got := r.Explain(t.Context(), recordOf(nil)); len(got) != 1 || got[0].Field != "spec" {
		t.Errorf("of a spec that does not compile: %+v", got)
	}
}

// TestExplainTellsWhatADeliveryWaitsFor fails when why ignores the Provider.
func TestExplainTellsWhatADeliveryWaitsFor(t *testing.T) {
	r := newRouted(t)
	r.put(t, spec(nil))
	says := func(words string) {
		t.Helper()
		got := r.Explain(t.Context(), recordOf(nil))
		if len(got) != 1 || !got[0].Matched || strings.Contains(got[0].Why, "waits") != (words != "") || !strings.Contains(got[0].Why, words) {
			t.Errorf("%+v", got)
		}
	}
	says("does not exist")
	r.destinations.Put("team-a", spec(nil).Provider, &Destination{UID: "p"})
	says("cannot be used")
	r.destinations.Put("team-a", spec(nil).Provider, &Destination{UID: "p", Sender: &sink{}})
	says("")
}

// TestT6ExplainingLeavesNoTraceAtTheRouter fails when Explain charges the time of patterns to the router's budget, counts or reports.
func TestT6ExplainingLeavesNoTraceAtTheRouter(t *testing.T) {
	r := newRouted(t)
	clock := &ticking{now: time.Unix(0, 0), step: time.Millisecond}
	r.explaining = filter.NewBudget(explainPart, clock.look)
	before := r.budget.Left("team-a")
	r.put(t, spec(func(s *AlertSpec) { s.Exclusion = []string{"(a|b)[a-z]{5,50}y"} }))
	rec := recordOf(func(rec *event.Record) { rec.Event.Message = strings.Repeat("x", filter.MaxText) })
	cut := 0
	for range 20 {
		for _, d := range r.Explain(t.Context(), rec) {
			if strings.Contains(d.Why, "longer than they may") {
				cut++
			}
		}
	}
	if cut == 0 {
		t.Error("explaining has no bound")
	}
	if left := r.budget.Left("team-a"); left != before {
		t.Errorf("the router has %v left", left)
	}
	if left := r.explaining.Left("team-b"); left <= 0 {
		t.Errorf("another namespace has %v left", left)
	}
	if reports := slices.Collect(maps.Keys(r.notes.ledger.accounts)); len(reports)+len(r.notes.recorded())+len(r.notes.ledger.expensive) > 0 {
		t.Errorf("it was reported: %v", reports)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got := r.Explain(ended, rec); len(got) != 0 {
		t.Errorf("explained after the end: %v", got)
	}
}

// TestT6ExplanationsTakeTurns is T6. Fails when a namespace has the turn for all its Alerts, of each of which the metadata is merged: users of
// others would wait for seconds. Fails when the wait for a turn counts as time of patterns.
func TestT6ExplanationsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRouted(t)
		takes := func(namespace, name string, took time.Duration) {
			r.destinations.Put(namespace, name, &Destination{UID: "p", Sender: &sink{}, Takes: func(provider.Notification) bool {
				<-time.After(took)
				return true
			}})
		}
		takes("busy", "slack", time.Second)
		takes("team-a", "chat", time.Millisecond)
		for n := range 50 {
			r.put(t, spec(func(s *AlertSpec) { s.Namespace, s.Name, s.Provider = "busy", fmt.Sprint("alert-", n), "slack" }))
		}
		for _, name := range []string{"one", "two"} {
			r.put(t, spec(func(s *AlertSpec) { s.Name, s.Inclusion = name, []string{"(app|supp)lied"} }))
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				r.Explain(t.Context(), recordOf(func(rec *event.Record) { rec.Event.InvolvedObject.Namespace = "busy" }))
			})
		}
		synctest.Wait()
		began := time.Now()
		for _, d := range r.Explain(t.Context(), recordOf(nil)) {
			if !d.Matched || strings.Contains(d.Why, "longer than they may") {
				t.Errorf("%+v", d)
			}
		}
		if waited := time.Since(began); waited > 2*(time.Second+time.Millisecond) {
			t.Errorf("two Alerts wait for %v, want at most one of another namespace each", waited)
		}
		wg.Wait()
	})
}

// Fails when a tenant who asks for a message that the Provider's type is not sent is not told what the event lacks.
func TestExplainTellsWhatATypeIsNotSent(t *testing.T) {
	commit := strings.Repeat("c", provider.SHA1Digits)
	for name, tc := range map[string]struct {
		takes provider.Takes
		meta  map[string]string
		says  string
	}{
		"no commit":         {provider.TakesCommits, map[string]string{"event.toolkit.fluxcd.io/commit_status": "update"}, "named a commit"},
		"no tie":            {provider.TakesCommits, map[string]string{"kustomize.toolkit.fluxcd.io/revision": "main@sha1:" + commit}, "event.toolkit.fluxcd.io/commit"},
		"no change request": {provider.TakesChangeRequests, nil, "event.toolkit.fluxcd.io/change_request"},
		"an update":         {provider.TakesMessages, map[string]string{"event.toolkit.fluxcd.io/commit_status": "update"}, "only updates"},
		"nothing":           {func(provider.Notification) bool { return false }, nil, "is not sent such events."},
	} {
		w := newWorld(t)
		w.destinations.Put("team-a", "chat", &Destination{UID: "p-chat", Sender: &sink{}, Takes: tc.takes})
		rec := &event.Record{ID: "1", Event: event.Event{
			InvolvedObject: event.ObjectReference{
				Kind: "Kustomization", Namespace: "team-a", Name: "app", APIVersion: "kustomize.toolkit.fluxcd.io/v1",
			},
			Severity: event.SeverityInfo, Reason: "ReconciliationSucceeded", Metadata: tc.meta,
		}}
		got := NewRouter(nil, w.deliverer(w.bus.session())).Explain(t.Context(), rec)
		if len(got) != 1 || got[0].Field != "provider.spec.type" || !strings.Contains(got[0].Why, tc.says) {
			t.Errorf("%s: %+v, want %q", name, got, tc.says)
		}
	}
}
