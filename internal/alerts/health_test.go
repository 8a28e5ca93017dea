package alerts

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// Fails when a busy or flapping Provider is reported more than once in ten seconds, or when a recovery is not reported.
func TestHealthIsReportedWhenItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var down atomic.Bool
		w.destination("chat", sendFunc(func(context.Context, provider.Notification) error {
			if down.Load() {
				return failure(event.Retry, provider.LabelServer)
			}
			return nil
		}))
		_, stop := w.run()
		feed := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); {
				w.bus.publish(w.delivery("chat", "app"+itoa(int(w.order%50))))
				wait(100 * time.Millisecond)
			}
		}
		began := time.Now()
		feed(time.Minute)
		told := w.notes.standings("Provider/team-a/chat")
		// The first report may come between the record of the first delivery and the health that follows from it.
		if n := len(told); n < 5 || n > 7 || told[1].Health.State != StateOK || told[0].LastDelivery.Time.Before(began) {
			t.Errorf("told %d times in a good minute, first %+v", n, told[:min(n, 2)])
		}
		down.Store(true)
		feed(30 * time.Second)
		told = w.notes.standings("Provider/team-a/chat")[len(told):]
		if n := len(told); n == 0 || n > 4 || told[n-1].Health.Reason != ReasonBreakerOpen || told[n-1].Health.State != StateFailing {
			t.Errorf("told %d times in a bad half minute: %+v", n, told)
		}
		for _, s := range told {
			if strings.Contains(fmt.Sprintf("%+v", s), "SECRET") {
				t.Errorf("a secret in %+v", s)
			}
		}
		wait(3 * time.Minute)
		told = w.notes.standings("Provider/team-a/chat")
		if last := told[len(told)-1]; last.Pending < 100 || last.LastDelivery.Time.IsZero() {
			t.Errorf("while it fails: %+v", last)
		}
		down.Store(false)
		wait(5 * time.Minute)
		told = w.notes.standings("Provider/team-a/chat")
		if last := told[len(told)-1]; last.Health.State != StateOK || last.Health.Reason != ReasonDelivered || last.Pending != 0 {
			t.Errorf("in the end: %+v", last)
		}
		stop()
	})
}

// counted returns the counters of a family that are not zero, by their label values in the order of the labels' names.
func counted(t *testing.T, r prometheus.Gatherer, name string) (lines []string) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != name || m.GetCounter().GetValue() == 0 {
				continue
			}
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			lines = append(lines, fmt.Sprintf("%s: %v", strings.Join(labels, " "), m.GetCounter().GetValue()))
		}
	}
	return lines
}

// Fails when a first failure finds no series, or when types without a Provider get series.
func TestTheSeriesOfATypeBeginWithItsFirstProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.destinations.Put("team-a", "chat", &Destination{Type: "generic"})
		w.destinations.Put("team-a", "odd", &Destination{Type: "a tenant's invention", Unsupported: true})
		_, stop := w.run()
		stop()
		families, err := w.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		types := map[string]bool{}
		for _, f := range families {
			if f.GetName() == "notifier_deliveries_total" {
				for _, m := range f.GetMetric() {
					types[m.GetLabel()[2].GetValue()] = true
				}
			}
		}
		if diff := cmp.Diff(map[string]bool{"generic": true, "other": true}, types); diff != "" {
			t.Error(diff)
		}
	})
}

// Fails when typeOf passes a tenant's type on, or an outcome is not counted.
func TestOutcomesAreCountedUnderClosedLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		answers := []error{
			nil, event.NewError(event.Retry, "made up", "x", nil), nil, failure(event.Permanent, provider.LabelClient),
		}
		w.destinations.Put("team-a", "chat", &Destination{
			Type: "a tenant's invention", Sender: sendFunc(func(context.Context, provider.Notification) error {
				err := answers[0]
				answers = answers[1:]
				return err
			}),
		})
		for range 3 {
			w.bus.publish(w.delivery("chat", "app"))
		}
		_, stop := w.run()
		wait(time.Minute)
		stop()
		want := []string{"dead http_4xx other: 1", "retry other other: 1", "sent none other: 2"}
		if diff := cmp.Diff(want, counted(t, w.registry, "notifier_deliveries_total")); diff != "" {
			t.Error(diff)
		}
		if problems, err := testutil.GatherAndLint(w.registry); err != nil || len(problems) != 0 {
			t.Errorf("%v %v", problems, err)
		}
	})
}

// Fails when join keeps the older copy, so that a delivery that was tried starts from the beginning.
func TestTheCopyWithMoreAttemptsCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		older := w.delivery("chat", "app")
		newer := older
		newer.Attempts, newer.Reschedules, newer.FirstAttempt = 3, 3, time.Now()
		w.bus.publish(older, newer)
		_, stop := w.run()
		wait(time.Second)
		w.destination("chat", sendFunc(func(context.Context, provider.Notification) error {
			return failure(event.Retry, provider.LabelServer)
		}))
		wait(6 * time.Second)
		stop()
		var attempts []int
		for _, p := range w.bus.parkings() {
			attempts = append(attempts, p.d.Attempts)
		}
		if diff := cmp.Diff([]int{4}, attempts); diff != "" {
			t.Error(diff)
		}
	})
}

func TestMissingOptionsAreNamed(t *testing.T) {
	if _, err := NewDeliverer(DelivererOptions{DrainTimeout: -1}); err == nil || !strings.Contains(err.Error(), "Bus is missing") ||
		!strings.Contains(err.Error(), "DrainTimeout") {
		t.Errorf("got %v", err)
	}
}

// An Alert may name any Provider, and one report for each invented name would fill shared memory. Fails when the health of a missing
// Provider is reported, when that of a deleted one is reported again, and when that of a Provider that was made since is not reported.
func TestNothingIsReportedOfAProviderThatDoesNotExist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		failing := sendFunc(func(context.Context, provider.Notification) error { return failure(event.Retry, provider.LabelServer) })
		w.destination("deleted", failing)
		for _, name := range []string{"invented", "deleted", "made"} {
			w.bus.publish(w.unbound(name, "app"))
		}
		_, stop := w.run()
		wait(2 * time.Minute)
		before := len(w.notes.standings("Provider/team-a/deleted"))
		w.destinations.Delete("team-a", "deleted")
		w.destination("made", failing)
		wait(10 * time.Minute)
		stop()
		if n := len(w.notes.standings("Provider/team-a/invented")); n != 0 {
			t.Errorf("%d reports of a Provider that never was", n)
		}
		if n := len(w.notes.standings("Provider/team-a/deleted")); before == 0 || n != before {
			t.Errorf("%d reports of a Provider that was deleted, %d before", n, before)
		}
		if len(w.notes.standings("Provider/team-a/made")) == 0 {
			t.Error("nothing is told of a Provider that was made since")
		}
	})
}
