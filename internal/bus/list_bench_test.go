package bus

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event/view"
)

// fill writes n messages to HISTORY, each with the record of one delivery: every gap-th one of the small namespace, the others of the large one.
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

// BenchmarkListDeliveries measures pages of 50 beside 1,000,000 kept deliveries: the newest, and those after random places of the list.
func BenchmarkListDeliveries(b *testing.B) {
	bus := open(b, b.TempDir(), func(o *Options) { o.Budgets.History = 2 << 30 })
	fill(b, bus, 1_000_000, 1000)
	ctx := context.Background()
	now := time.Now()
	for _, c := range []struct {
		name, namespace string
		query           func() view.Query
		pages           int
	}{
		{"large/newest", "large", func() view.Query { return view.Query{} }, 1},
		{"large/five pages", "large", func() view.Query { return view.Query{} }, 5},
		{"large/until", "large", func() view.Query { return view.Query{Until: now.Add(-time.Duration(rand.IntN(12)) * time.Second)} }, 1},
		{"large/provider", "large", func() view.Query { return view.Query{Provider: "slack-1"} }, 1},
		{"small/newest", "small", func() view.Query { return view.Query{} }, 1},
		{"small/five pages", "small", func() view.Query { return view.Query{} }, 5},
		{"none", "none", func() view.Query { return view.Query{} }, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				q := c.query()
				for range c.pages {
					began := time.Now()
					page, err := bus.ListDeliveries(ctx, c.namespace, q)
					took = append(took, time.Since(began))
					must(b, err)
					if len(page.Items) != 50 && c.namespace != "none" {
						b.Fatalf("%d items", len(page.Items))
					}
					q.Cursor = page.Next
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "max-ms")
		})
	}
}
