package alerts

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"notifier/internal/event"
)

// T6: the bus learns which events may take long to route, so that no other namespace waits for them. Fails when heavy ignores the Alerts
// that select an event's object, counts those of other kinds or namespaces, or ignores patterns that take long.
func TestT6AnExpensiveEventIsRecognized(t *testing.T) {
	r := newRouted(t)
	any := func(kind string) Source { return Source{Kind: kind, Name: "*"} }
	for i := range heavyMatch + 1 {
		put(t, r.alerts, "many", fmt.Sprint("alert-", i), any("Kustomization"))
		put(t, r.alerts, fmt.Sprint("few-", i), "alert", any("Kustomization"))
	}
	put(t, r.alerts, "many", "other", any("HelmRelease"))
	about := func(namespace, kind string) *event.Record {
		return recordOf(func(r *event.Record) {
			r.Event.InvolvedObject = kustomization(namespace, "app")
			r.Event.InvolvedObject.Kind = kind
		})
	}
	if err := r.route(t.Context(), []*event.Record{about("many", "Kustomization"), about("few-1", "Kustomization")}); err != nil {
		t.Fatal(err)
	}
	r.budget.Spend("few-2", 100*time.Millisecond)
	for name, tc := range map[string]struct {
		record *event.Record
		want   bool
	}{
		"many Alerts on its object":            {about("many", "Kustomization"), true},
		"a kind of which one Alert is":         {about("many", "HelmRelease"), false},
		"a namespace with one Alert":           {about("few-1", "Kustomization"), false},
		"a namespace without any":              {about("none", "Kustomization"), false},
		"a namespace whose patterns took time": {about("few-2", "Kustomization"), true},
	} {
		if got := r.heavy(tc.record); got != tc.want {
			t.Errorf("%s: heavy %v", name, got)
		}
	}
}

// Batches of different namespaces are routed at the same time. The race detector checks it.
func TestBatchesOfDifferentNamespacesAreRoutedTogether(t *testing.T) {
	r, out := newRouted(t), &countingDispatcher{}
	r.deliverer = out
	var wg sync.WaitGroup
	for i := range 4 {
		namespace := fmt.Sprint("team-", i)
		r.put(t, spec(func(s *AlertSpec) { s.Namespace, s.Inclusion = namespace, []string{"applied.*"} }))
		wg.Go(func() {
			for range 100 {
				record := recordOf(func(r *event.Record) { r.Event.InvolvedObject = kustomization(namespace, "app") })
				if err := r.route(t.Context(), []*event.Record{record}); err != nil {
					t.Error(err)
				}
				r.heavy(record)
			}
		})
	}
	wg.Wait()
	if out.count != 400 {
		t.Errorf("%d deliveries", out.count)
	}
}

// countingDispatcher counts deliveries.
type countingDispatcher struct {
	*fakeEvents
	mu    sync.Mutex
	count int
}

func (p *countingDispatcher) Dispatch(_ context.Context, ds []event.Message[event.Delivery]) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count += len(ds)
	return nil
}
