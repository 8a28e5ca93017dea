package bus

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
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
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric((testutil.ToFloat64(syncs)-before)/float64(b.N), "syncs/event")
	reportTimes(b, took)
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

// BenchmarkPublishBesideAFlood measures how long an event takes whose namespace publishes one every few milliseconds, while another
// namespace has 64 publishers.
func BenchmarkPublishBesideAFlood(b *testing.B) {
	for name, slower := range map[string]time.Duration{"disk=as-it-is": 0, "disk=slow": 5 * time.Millisecond} {
		b.Run(name, func(b *testing.B) {
			bus := open(b, b.TempDir(), func(o *Options) {
				o.Budgets.Events = 16 << 30
				o.fsync = func(f *os.File) error {
					<-time.After(slower)
					return f.Sync()
				}
			})
			ctx, end := context.WithCancel(b.Context())
			var flood sync.WaitGroup
			for p := range 64 {
				flood.Go(func() {
					for i := 0; ctx.Err() == nil; i++ {
						_, _ = bus.PublishEvent(ctx, testRecord(fmt.Sprint("flood-", p, "-", i), "flood", fmt.Sprint(p)))
					}
				})
			}
			took := make([]time.Duration, b.N)
			tick := time.NewTicker(7 * time.Millisecond)
			defer tick.Stop()
			b.ResetTimer()
			for i := range took {
				<-tick.C
				began := time.Now()
				_, err := bus.PublishEvent(ctx, testRecord(fmt.Sprint(i), "quiet", "app"))
				must(b, err)
				took[i] = time.Since(began)
			}
			b.StopTimer()
			end()
			flood.Wait()
			reportTimes(b, took)
		})
	}
}

// reportTimes reports the median of how long calls took, and their 99th percentile.
func reportTimes(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}
