package alerts

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// fakeEvents hands out batches and collects the published deliveries.
type fakeEvents struct {
	batches   [][]*event.Record
	errs      []error
	published []event.Delivery
	fail      error
	// lost has the reports of deliveries that were given up. done counts the events that are done.
	lost []string
	done int
	// dispatched, unless nil, is given each delivery.
	dispatched func(event.Message[event.Delivery])
}

func (f *fakeEvents) Lost(d *event.Delivery, _ *Destination, label, _ string) {
	f.lost = append(f.lost, d.Alert+" "+label)
}

func (f *fakeEvents) Events(ctx context.Context, h event.Handler) error {
	for _, batch := range f.batches {
		f.errs = append(f.errs, h.Handle(ctx, f.held(batch)))
	}
	return nil
}

// held returns records as the bus hands them out.
func (f *fakeEvents) held(batch []*event.Record) []event.Message[*event.Record] {
	var held []event.Message[*event.Record]
	for _, r := range batch {
		held = append(held, event.Message[*event.Record]{Value: r, Seq: r.Seq, Acker: f})
	}
	return held
}

func (f *fakeEvents) Ack(context.Context) error     { f.done++; return nil }
func (f *fakeEvents) InProgress() error             { return nil }
func (f *fakeEvents) Nak() error                    { return nil }
func (f *fakeEvents) Begin(func(string) bool)       {}
func (f *fakeEvents) CaughtUp(context.Context)      {}
func (f *fakeEvents) Full(string) bool              { return false }
func (f *fakeEvents) Spill(context.Context, uint64) {}

func (f *fakeEvents) Dispatch(_ context.Context, ds []event.Message[event.Delivery]) error {
	if f.fail != nil {
		return f.fail
	}
	for _, h := range ds {
		f.published = append(f.published, h.Value)
		if f.dispatched != nil {
			f.dispatched(h)
		}
	}
	return nil
}

// route routes records.
func (r routed) route(ctx context.Context, batch []*event.Record) error {
	return r.Router.route(ctx, r.events.held(batch))
}

type routed struct {
	*Router
	events       *fakeEvents
	alerts       *Table
	destinations *Destinations
	notes        *notes
}

func newRouted(tb testing.TB) routed {
	tb.Helper()
	r := routed{events: &fakeEvents{}, alerts: NewTable(), destinations: NewDestinations()}
	r.notes = newNotes(r.alerts, r.destinations)
	s := newFakeBus().session()
	d, err := NewDeliverer(DelivererOptions{
		Bus: s, Alerts: r.alerts, Destinations: r.destinations, Reports: r.notes.ledger,
		Quota: 1, MaxAge: DefaultMaxAge, Recorder: r.notes, Types: []string{"generic"}, Gate: open, DrainTimeout: drainTimeout,
		Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		tb.Fatal(err)
	}
	r.Router = NewRouter(r.events, d)
	r.deliverer = r.events
	return r
}

func (r routed) put(tb testing.TB, s AlertSpec) {
	tb.Helper()
	a := compiled(tb, s)
	r.alerts.Put(a)
}

func recordOf(change func(*event.Record)) *event.Record {
	r := &event.Record{
		ID: "e1", Seq: 7, Event: event.Event{
			InvolvedObject: kustomization("team-a", "app"), Severity: "info", Message: "applied revision main@sha1:abc",
		},
	}
	if change != nil {
		change(r)
	}
	return r
}

func TestAnAlertTakesWhatItsSpecAsksFor(t *testing.T) {
	for name, tc := range map[string]struct {
		spec    func(*AlertSpec)
		record  func(*event.Record)
		matches bool
	}{
		"info takes info":     {nil, nil, true},
		"info takes error":    {nil, func(r *event.Record) { r.Event.Severity = "error" }, true},
		"info takes trace":    {nil, func(r *event.Record) { r.Event.Severity = "trace" }, true},
		"error takes error":   {func(s *AlertSpec) { s.Severity = "error" }, func(r *event.Record) { r.Event.Severity = "error" }, true},
		"error leaves info":   {func(s *AlertSpec) { s.Severity = "error" }, nil, false},
		"a suspended Alert":   {func(s *AlertSpec) { s.Suspend = true }, nil, false},
		"an inclusion":        {func(s *AlertSpec) { s.Inclusion = []string{"no", "^applied"} }, nil, true},
		"no inclusion hits":   {func(s *AlertSpec) { s.Inclusion = []string{"no", "^revision"} }, nil, false},
		"an exclusion":        {func(s *AlertSpec) { s.Exclusion = []string{"revision .*@"} }, nil, false},
		"exclusion wins":      {func(s *AlertSpec) { s.Inclusion, s.Exclusion = []string{"applied"}, []string{"sha1"} }, nil, false},
		"an exclusion misses": {func(s *AlertSpec) { s.Exclusion = []string{"failed"} }, nil, true},
		"another namespace":   {nil, func(r *event.Record) { r.Event.InvolvedObject.Namespace = "team-b" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRouted(t)
			r.put(t, spec(tc.spec))
			if err := r.route(t.Context(), []*event.Record{recordOf(tc.record)}); err != nil {
				t.Fatal(err)
			}
			if got := len(r.events.published) == 1; got != tc.matches {
				t.Errorf("published %v", r.events.published)
			}
		})
	}
}

// Fails when address leaves a field out.
func TestADeliveryCarriesWhatFollowsFromTheEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRouted(t)
		r.put(t, spec(nil))
		r.destinations.Put("team-a", "chat", &Destination{UID: "p1", Type: "generic"})
		rec := recordOf(func(r *event.Record) { r.Recheck = true })
		if err := r.route(t.Context(), []*event.Record{rec}); err != nil {
			t.Fatal(err)
		}
		e := rec.Event
		e.Metadata = map[string]string{}
		want := []event.Delivery{{
			ID: event.DeliveryID(rec, "uid-1", "chat"), Order: 7, Namespace: "team-a", Alert: "alert", AlertUID: "uid-1",
			Provider: "chat", ProviderUID: "p1", Event: e, Routed: time.Now(), Recheck: true,
		}}
		if diff := cmp.Diff(want, r.events.published); diff != "" {
			t.Error(diff)
		}
	})
}

// E2: fails when route swallows the error.
func TestE2ABatchThatIsNotDispatchedIsTriedAgain(t *testing.T) {
	r := newRouted(t)
	r.put(t, spec(nil))
	r.events.batches = [][]*event.Record{{recordOf(nil)}}
	r.events.fail = errors.New("no answer")
	if err := r.Run(t.Context()); err != nil || len(r.events.errs) != 1 || !errors.Is(r.events.errs[0], r.events.fail) {
		t.Errorf("Run: %v, route: %v", err, r.events.errs)
	}
	if r.events.done != 0 {
		t.Error("the event is done")
	}
}

// E2: fails when an event is done with the first of its deliveries, or when an event without deliveries is never done.
func TestE2AnEventIsDoneWithTheLastOfItsDeliveries(t *testing.T) {
	r := newRouted(t)
	r.put(t, spec(nil))
	r.put(t, spec(func(s *AlertSpec) { s.Name, s.UID = "second", "uid-2" }))
	var held []event.Message[event.Delivery]
	r.events.dispatched = func(h event.Message[event.Delivery]) { held = append(held, h) }
	foreign := recordOf(func(r *event.Record) { r.Event.InvolvedObject.Namespace = "team-b" })
	if err := r.route(t.Context(), []*event.Record{recordOf(nil), foreign}); err != nil {
		t.Fatal(err)
	}
	if len(held) != 2 || r.events.done != 1 {
		t.Fatalf("%d deliveries, %d events done, not that without any", len(held), r.events.done)
	}
	for i, want := range []int{1, 1, 2} { // the first twice
		if err := held[i/2].Ack(t.Context()); err != nil || r.events.done != want {
			t.Errorf("step %d: %d events done, error %v", i, r.events.done, err)
		}
	}
}

// TestRoutingTwiceYieldsTheSameIDs is E3. Fails when an ID depends on more than event, Alert and Provider.
func TestRoutingTwiceYieldsTheSameIDs(t *testing.T) {
	r := newRouted(t)
	r.put(t, spec(nil))
	r.put(t, spec(func(s *AlertSpec) { s.Name, s.UID = "second", "uid-2" }))
	for range 2 {
		if err := r.route(t.Context(), []*event.Record{recordOf(nil)}); err != nil {
			t.Fatal(err)
		}
	}
	p := r.events.published
	if len(p) != 4 || p[0].ID != p[2].ID || p[1].ID != p[3].ID || p[0].ID == p[1].ID {
		t.Errorf("published %v", p)
	}
}

func TestEventsWaitForTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRouted(t)
		gate := make(chan struct{})
		r.Gate = gate
		r.events.batches = [][]*event.Record{{recordOf(nil)}}
		done := make(chan error, 1)
		go func() { done <- r.Run(t.Context()) }()
		synctest.Wait()
		if len(r.events.errs) != 0 {
			t.Error("routed before the tables were complete")
		}
		r.put(t, spec(nil))
		close(gate)
		if err := <-done; err != nil || len(r.events.published) != 1 {
			t.Errorf("%v, published %v", err, r.events.published)
		}
	})
}

func TestEventsThatAProviderDoesNotTakeAreNotRouted(t *testing.T) {
	update := func(r *event.Record) {
		r.Event.Metadata = map[string]string{"kustomize.toolkit.fluxcd.io/commit_status": "update"}
	}
	for name, tc := range map[string]struct {
		destination *Destination
		record      func(*event.Record)
		routed      bool
	}{
		"a suspended Provider":                         {&Destination{Type: "generic", Suspended: true}, nil, false},
		"a commit status for a chat":                   {&Destination{Type: "slack", Takes: provider.TakesMessages}, update, false},
		"a commit status for incidents":                {&Destination{Type: "opsgenie", Takes: provider.TakesOutcomes}, update, true},
		"a commit status for generic":                  {&Destination{Type: "generic", Takes: provider.TakesAll}, update, true},
		"a Provider that does not exist gets it later": {nil, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRouted(t)
			r.put(t, spec(nil))
			if tc.destination != nil {
				r.destinations.Put("team-a", "chat", tc.destination)
			}
			if err := r.route(t.Context(), []*event.Record{recordOf(tc.record)}); err != nil {
				t.Fatal(err)
			}
			if got := len(r.events.published) == 1; got != tc.routed {
				t.Errorf("published %v", r.events.published)
			}
		})
	}
}

func TestMetadataIsMergedByPrecedence(t *testing.T) {
	const group = "kustomize.toolkit.fluxcd.io/"
	for name, tc := range map[string]struct {
		event     map[string]string
		alert     map[string]string
		summary   string
		want      map[string]string
		conflicts []string
	}{
		"annotations lose their prefix": {
			event: map[string]string{event.MetadataPrefix + "team": "x"}, want: map[string]string{"team": "x"},
		},
		"the Alert wins over annotations": {
			event: map[string]string{event.MetadataPrefix + "team": "x"}, alert: map[string]string{"team": "y"},
			want: map[string]string{"team": "y"}, conflicts: []string{"team"},
		},
		"the summary wins over the Alert's metadata": {
			alert: map[string]string{"summary": "x"}, summary: "y",
			want: map[string]string{"summary": "y"}, conflicts: []string{"summary"},
		},
		"the controller wins over all": {
			event: map[string]string{group + "revision": "r", group + "summary": "c", event.MetadataPrefix + "revision": "a"},
			alert: map[string]string{"revision": "x"}, summary: "s",
			want: map[string]string{"revision": "r", "summary": "c"}, conflicts: []string{"revision", "summary"},
		},
		"two that agree are no conflict": {
			event: map[string]string{group + "revision": "r"}, alert: map[string]string{"revision": "r"},
			want: map[string]string{"revision": "r"},
		},
		"everything else is dropped": {
			event: map[string]string{
				"plain": "x", "other.io/key": "x", group + "checksum": "x", group + "Digest": "x", group + "token": "x", group: "x",
				event.MetadataPrefix: "x",
			},
			want: map[string]string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := compiled(t, spec(func(s *AlertSpec) { s.Metadata, s.Summary = tc.alert, tc.summary }))
			e := recordOf(func(r *event.Record) { r.Event.Metadata = tc.event }).Event
			merged, _, conflicts := mergeMetadata(e, a)
			if diff := cmp.Diff(tc.want, merged); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.conflicts, conflicts); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// One event for two Alerts must not mix their summaries. Fails when address writes into the record's map.
func TestAlertsDoNotSeeEachOthersMetadata(t *testing.T) {
	r := newRouted(t)
	for _, name := range []string{"a", "b"} {
		r.put(t, spec(func(s *AlertSpec) {
			s.Name, s.UID, s.Summary, s.Metadata = name, name, "of "+name, map[string]string{name: "1"}
		}))
	}
	rec := recordOf(func(r *event.Record) { r.Event.Metadata = map[string]string{event.MetadataPrefix + "k": "v"} })
	if err := r.route(t.Context(), []*event.Record{rec}); err != nil {
		t.Fatal(err)
	}
	want := []map[string]string{{"k": "v", "a": "1", "summary": "of a"}, {"k": "v", "b": "1", "summary": "of b"}}
	got := []map[string]string{r.events.published[0].Event.Metadata, r.events.published[1].Event.Metadata}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{event.MetadataPrefix + "k": "v"}, rec.Event.Metadata); diff != "" {
		t.Error(diff)
	}
}

func TestAMetadataConflictIsRecordedOnceAMinuteWithoutValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRouted(t)
		r.put(t, spec(func(s *AlertSpec) { s.Metadata = map[string]string{"team": "mine"} }))
		rec := recordOf(func(r *event.Record) { r.Event.Metadata = map[string]string{event.MetadataPrefix + "team": "theirs"} })
		for range 3 {
			if err := r.route(t.Context(), []*event.Record{rec, rec}); err != nil {
				t.Fatal(err)
			}
			pass(40 * time.Second)
		}
		got := r.notes.recorded()
		if len(got) != 2 || !strings.HasPrefix(got[0], "Alert/team-a/alert MetadataAppendFailed ") ||
			!strings.Contains(got[0], `"team"`) || strings.Contains(got[0], "mine") || strings.Contains(got[0], "theirs") {
			t.Errorf("recorded %v", got)
		}
	})
}
