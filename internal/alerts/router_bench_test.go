package alerts

import (
	"fmt"
	"strings"
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

// BenchmarkWorstPattern measures one step of the worst pattern, for the bounds in pattern.go.
func BenchmarkWorstPattern(b *testing.B) {
	p, err := compilePattern(`(?:\pL{1,30}){1,32}\d`)
	if err != nil {
		b.Fatal(err)
	}
	text := strings.Repeat("Ж", 1000)
	for b.Loop() {
		p.re.MatchString(text)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(p.size*1000), "ns/step")
}
