package alerts

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestADeliveryThatWaitsIsCountedInOnePlace fails when a tick counts what is in memory before it puts some of that back on the schedule.
func TestADeliveryThatWaitsIsCountedInOnePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		var up atomic.Bool
		w.destination("chat", whileUp(&up, 10*time.Millisecond, dest))
		const waiting = 5
		for range waiting {
			w.bus.publish(w.delivery("chat", "app"))
		}
		_, stop := w.run()
		wait(time.Minute)
		for range 300 {
			wait(time.Second)
			if n := depth(t, w); n != waiting {
				t.Errorf("%v are counted, want %d", n, waiting)
			}
		}
		stop()
	})
}

// depth returns the sum of notifier_delivery_queue_depth over its places.
func depth(t *testing.T, w *world) float64 {
	t.Helper()
	return depthIn(t, w, "memory") + depthIn(t, w, "schedule")
}

// depthIn returns notifier_delivery_queue_depth of a place.
func depthIn(t *testing.T, w *world, place string) (sum float64) {
	t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "notifier_delivery_queue_depth" {
			for _, m := range f.GetMetric() {
				if m.GetLabel()[0].GetValue() == place {
					sum += m.GetGauge().GetValue()
				}
			}
		}
	}
	return sum
}
