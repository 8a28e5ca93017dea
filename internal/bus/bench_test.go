package bus

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"notifier/internal/event"
)

// BenchmarkPublishTriggers measures triggers that are acknowledged by the disk, by callers and distinct targets.
func BenchmarkPublishTriggers(b *testing.B) {
	for _, c := range []struct{ callers, targets int }{{1, 1}, {64, 1}, {64, 1000}, {256, 1000}} {
		b.Run(fmt.Sprintf("callers=%d/targets=%d", c.callers, c.targets), func(b *testing.B) {
			bus := open(b, b.TempDir(), nil)
			share(b, c.callers, func(ctx context.Context, i int64) error {
				return bus.PublishTriggers(ctx, testTrigger("team", fmt.Sprint(i*7919%int64(c.targets)), i))
			})
		})
	}
}

// BenchmarkPublishEvent measures events that are acknowledged by the disk.
func BenchmarkPublishEvent(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			bus := open(b, b.TempDir(), func(o *Options) { o.Budgets.Events = 16 << 30 })
			share(b, callers, func(ctx context.Context, i int64) error {
				_, err := bus.PublishEvent(ctx, testRecord(fmt.Sprint(i), "team", fmt.Sprint(i%1000)))
				return err
			})
		})
	}
}

// BenchmarkDeliver measures deliveries from publishing in batches to the confirmed acknowledgement, with 64 of them in work.
func BenchmarkDeliver(b *testing.B) {
	bus := open(b, b.TempDir(), func(o *Options) { o.Shards = 16 })
	held := make(chan event.Message[event.Delivery])
	stop := start(b, deliverTo(bus, held))
	ctx := b.Context()
	const batch = 100
	b.ResetTimer()
	go func() {
		for i := 0; i < b.N; i += batch {
			ds := make([]event.Delivery, 0, batch)
			for j := i; j < min(i+batch, b.N); j++ {
				ds = append(ds, testDelivery(fmt.Sprint(j), "team", fmt.Sprint("p", j%64)))
			}
			if err := publishDeliveries(ctx, bus, ds); err != nil {
				b.Error(err)
				return
			}
		}
	}()
	share(b, 64, func(ctx context.Context, _ int64) error { return (<-held).Ack(ctx) })
	b.StopTimer()
	stop()
}

// BenchmarkRoute measures events that are in the stream, to the acknowledgement of the batch.
func BenchmarkRoute(b *testing.B) {
	bus := open(b, b.TempDir(), func(o *Options) { o.Budgets.Events = 16 << 30 })
	share(b, 64, func(ctx context.Context, i int64) error {
		_, err := bus.PublishEvent(ctx, testRecord(fmt.Sprint(i), "team", fmt.Sprint(i%1000)))
		return err
	})
	b.ResetTimer()
	b.StartTimer()
	all := make(chan struct{})
	routed := 0
	stop := start(b, func(ctx context.Context) error {
		return bus.Events(ctx, handlerOf(light, func(_ context.Context, batch []*event.Record) error {
			if routed += len(batch); routed == b.N {
				close(all)
			}
			return nil
		}))
	})
	<-all
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
	stop()
}

// share runs b.N calls from so many callers.
func share(b *testing.B, callers int, call func(ctx context.Context, i int64) error) {
	b.Helper()
	ctx := context.Background()
	var next atomic.Int64
	done := make(chan struct{})
	b.ResetTimer()
	for range callers {
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				i := next.Add(1) - 1
				if i >= int64(b.N) {
					return
				}
				if err := call(ctx, i); err != nil {
					b.Error(err)
					return
				}
			}
		}()
	}
	for range callers {
		<-done
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
}
