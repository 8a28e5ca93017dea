package reconcile

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// Fails when a tenant can choose the value of a label: the number of series would no longer be known at start.
func TestTheNumberOfSeriesDoesNotDependOnTheObjects(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := oneOfEach()
	var atStart int
	s.change = func(o *Options) { o.Registerer = registry }
	s.prepare = func(*world) { atStart = series(t, registry) }
	play(t, s, func(w *world) {
		if got := series(t, registry); got != atStart || got == 0 {
			t.Errorf("series: got %d, at start %d", got, atStart)
		}
		for _, kind := range kinds {
			if got := testutil.ToFloat64(w.metrics.results.WithLabelValues(kind, stageCompile, "ok")); got != 1 {
				t.Errorf("%s: %v compiled, want 1", kind, got)
			}
		}
	})
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

func series(t *testing.T, registry *prometheus.Registry) int {
	t.Helper()
	n, err := testutil.GatherAndCount(registry)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// heldSecrets returns the value of notifier_secrets_held.
func (w *world) heldSecrets() float64 {
	w.t.Helper()
	families, err := w.options.Registerer.(*prometheus.Registry).Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "notifier_secrets_held" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	w.t.Fatal("held Secrets are not counted")
	return 0
}
