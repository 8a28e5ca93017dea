package alerts

import (
	"fmt"
	"testing"

	"notifier/internal/event"
)

// The two must cost the same (E8).
func BenchmarkRoute(b *testing.B) {
	for _, size := range []struct{ alerts, namespaces int }{{10, 5}, {10_000, 5_000}} {
		b.Run(fmt.Sprintf("alerts=%d", size.alerts), func(b *testing.B) {
			r := newRouted(b)
			for i := range size.alerts {
				r.put(b, AlertSpec{
					Namespace: fmt.Sprint("ns-", i%size.namespaces), Name: fmt.Sprint("alert-", i), UID: fmt.Sprint(i), Provider: "chat",
					Sources: []Source{{Kind: "Kustomization", Name: "*"}}, Exclusion: []string{"waiting.*"},
				})
			}
			batch := make([]*event.Record, 100)
			for i := range batch {
				batch[i] = recordOf(func(r *event.Record) {
					r.Event.InvolvedObject = kustomization(fmt.Sprint("ns-", i%min(5, size.namespaces)), "app")
				})
			}
			for b.Loop() {
				if err := r.route(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
				r.events.published = r.events.published[:0]
			}
			b.ReportMetric(float64(b.N*len(batch))/b.Elapsed().Seconds(), "events/s")
		})
	}
}
