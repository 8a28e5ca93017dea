package watch

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// Fails when an informer that reports a change while the term ends has the replica, which does not lead any more, count a waiting transition.
func TestNothingWaitsOnceATermIsOver(t *testing.T) {
	restarted(t, kustomization{}, func(t *testing.T, w *world, stop func()) {
		kind := kindNamed("Kustomization")
		led, in := w.leader.leading.Load(), w.leader.informerOf(kind)
		stop()
		led.observe(in, objectOf(kind, w.object(kustomization{failed: true}))) // begun before the end
		if n := testutil.ToFloat64(led.metrics.waiting); n != 0 {
			t.Errorf("%g transitions wait", n)
		}
	})
}
