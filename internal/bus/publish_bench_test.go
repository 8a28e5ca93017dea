package bus

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// BenchmarkPublish measures events that are on disk when they are acknowledged, of publishers each with a namespace of its own: how many a
// second, how long one takes, and how many syncs it costs.
func BenchmarkPublish(b *testing.B) {
	for _, publishers := range []int{1, 64} {
		b.Run(fmt.Sprintf("publishers=%d", publishers), func(b *testing.B) {
			benchmarkPublish(b, open(b, b.TempDir(), func(o *Options) { o.Budgets.Events = 16 << 30 }), publishers)
		})
	}
}

func benchmarkPublish(b *testing.B, bus *Bus, publishers int) {
	took := make([]time.Duration, b.N)
	syncs := bus.metrics.syncs.WithLabelValues(streamEvents)
	before := testutil.ToFloat64(syncs)
	var next atomic.Int64
	done := make(chan error)
	b.ResetTimer()
	for p := range publishers {
		go func() {
			var err error
			for err == nil {
				i := next.Add(1) - 1
				if i >= int64(b.N) {
					break
				}
				began := time.Now()
				_, err = bus.PublishEvent(context.Background(), testRecord(fmt.Sprint(i), fmt.Sprint("team-", p), fmt.Sprint(i%100)))
				took[i] = time.Since(began)
			}
			done <- err
		}()
	}
	for range publishers {
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric((testutil.ToFloat64(syncs)-before)/float64(b.N), "syncs/event")
	b.ReportMetric(float64(took[b.N/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[b.N*99/100].Microseconds()), "p99-µs")
}

// BenchmarkPublishOnASlowDisk is BenchmarkPublish with five milliseconds more for each sync.
func BenchmarkPublishOnASlowDisk(b *testing.B) {
	for _, publishers := range []int{1, 64} {
		b.Run(fmt.Sprintf("publishers=%d", publishers), func(b *testing.B) {
			bus := open(b, b.TempDir(), func(o *Options) {
				o.Budgets.Events = 16 << 30
				o.fsync = func(f *os.File) error {
					timer := time.NewTimer(5 * time.Millisecond)
					<-timer.C
					return f.Sync()
				}
			})
			benchmarkPublish(b, bus, publishers)
		})
	}
}
