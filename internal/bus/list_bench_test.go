package bus

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event/view"
)

// fill writes n messages to HISTORY, each with the record of one delivery: every gap-th one of the small namespace, the others of the
// large one.
func fill(t testing.TB, b *Bus, n, gap int) {
	t.Helper()
	for i := range n {
		namespace := "large"
		if gap > 0 && i%gap == 0 {
			namespace = "small"
		}
		d := testDelivery(fmt.Sprintf("%064x", i), namespace, fmt.Sprint("slack-", i%3))
		d.Order, d.Routed = uint64(i), time.Now()
		body, err := encodeJSON(sentRecord(&d, time.Now()))
		must(t, err)
		for {
			_, err := b.js.PublishMsgAsync(newMsg(historySubject(&d), append(body, '\n')), jetstream.WithStallWait(time.Minute))
			if err == nil {
				break
			}
		}
	}
	<-b.js.PublishAsyncComplete()
}

// BenchmarkListDeliveries measures pages of 50 of a namespace with 1,000,000 kept deliveries, and of a small one beside it that has one in
// a thousand of them. Its baseline is a namespace with 1,000. Command bench of the tests reads its figures.
func BenchmarkListDeliveries(b *testing.B) {
	for _, kept := range []int{1000, 1_000_000} {
		bus := open(b, b.TempDir(), func(o *Options) { o.Budgets.History = 2 << 30 })
		fill(b, bus, kept, 1000)
		for _, c := range []struct {
			name, namespace string
			query           view.Query
			pages           int
		}{
			{"newest", "large", view.Query{}, 1},
			{"pages", "large", view.Query{}, 10},
			{"provider", "large", view.Query{Provider: "slack-1"}, 1},
			{"small", "small", view.Query{}, 1},
			{"none", "none", view.Query{}, 1},
		} {
			b.Run(fmt.Sprintf("kept=%d/%s", kept, c.name), func(b *testing.B) { pages(b, bus, c.namespace, c.query, c.pages) })
		}
	}
}

// pages measures the first pages of a list.
func pages(b *testing.B, bus *Bus, namespace string, q view.Query, pages int) {
	var took []time.Duration
	for b.Loop() {
		q := q
		for range pages {
			began := time.Now()
			page, err := bus.ListDeliveries(b.Context(), namespace, q)
			took = append(took, time.Since(began))
			must(b, err)
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
		}
	}
	slices.Sort(took)
	for name, share := range map[string]int{"p50-ms": 50, "p99-ms": 99, "max-ms": 100} {
		b.ReportMetric(float64(took[(len(took)-1)*share/100].Microseconds())/1000, name)
	}
}
