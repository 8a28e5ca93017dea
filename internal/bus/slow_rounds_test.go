package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// newSlowBus returns a bus whose server takes a time for each message, until ctx ends.
func newSlowBus(ctx context.Context, t *testing.T, stream string, syncs time.Duration) *Bus {
	b := newBus(Options{Shards: DefaultShards, Budgets: defaultBudgets()})
	b.js = newSlowDisk(ctx, stream, syncs)
	var err error
	b.metrics, err = newMetrics(prometheus.NewRegistry(), func() bool { return true })
	must(t, err)
	b.stats, b.pendingTriggers, b.triggerQuotas = newStats(b), newPendingTriggers(), newTriggerQuotas(b)
	b.triggers = newTriggerCommitter(b)
	b.history = newHistory(b)
	return b
}

// E5. Many deliveries to as many Providers are sent at once, and a server with a slow disk records them, each again after an error, as a
// shard does. Fails when a round has more messages than the server stores in the time for which they are awaited: no record ever was
// known to be stored, and the Providers' next deliveries were not sent. Fails also when records are given up and written again.
func TestE5ASlowDiskIsNotGivenMoreRecordsThanItStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const syncs, providers, each = 40 * time.Millisecond, 200, 3
		until, end := context.WithTimeout(t.Context(), 10*time.Minute)
		defer end()
		b := newSlowBus(until, t, streamHistory, syncs)
		began := time.Now()
		var all sync.WaitGroup
		for i := range providers {
			all.Go(func() {
				for n := range each {
					d := testDelivery(fmt.Sprint(i, "-", n), fmt.Sprint("team-", i%10), fmt.Sprint("p", i))
					for gap := 200 * time.Millisecond; until.Err() == nil; gap = min(2*gap, 2*time.Second) {
						ctx, cancel := context.WithTimeout(until, 2*time.Second)
						err := b.Sent(ctx, &d)
						cancel()
						if err == nil {
							break
						}
						pass(gap)
					}
				}
			})
		}
		all.Wait()
		if took, want := time.Since(began), providers*each*syncs; took > want*5/4 {
			t.Errorf("took %s, the disk needs %s", took, want)
		}
		end()
		b.work.Wait()
	})
}

// T6. Fails when a namespace with more webhooks than a slow disk stores has those of others refused, or when the disk works for webhooks that
// were refused.
func TestT6ASlowDiskServesOthersDuringAFloodOfTriggers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const syncs, lasts = 40 * time.Millisecond, 2 * time.Minute
		until, end := context.WithTimeout(t.Context(), lasts)
		defer end()
		b := newSlowBus(until, t, streamTriggers, syncs)
		var all sync.WaitGroup
		var mu sync.Mutex
		accepted, refused := map[string]int{}, map[string]int{}
		send := func(namespace, key string) {
			err := b.PublishTriggers(until, testTrigger(namespace, key, 1))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				accepted[namespace]++
			case !errors.Is(err, context.Canceled) && until.Err() == nil:
				refused[namespace]++
			}
		}
		for i := range int(lasts / (10 * time.Millisecond)) {
			all.Go(func() { send("flood", fmt.Sprint(i)) })
			if i%100 == 99 {
				all.Go(func() { send("team", fmt.Sprint(i)) })
			}
			pass(10 * time.Millisecond)
		}
		all.Wait()
		if refused["team"] > 2 { // until the rounds are short
			t.Errorf("of another namespace %d are refused and %d accepted", refused["team"], accepted["team"])
		}
		if want := int(lasts/syncs) * 3 / 4; accepted["flood"] < want {
			t.Errorf("of the flood %d are accepted, want %d", accepted["flood"], want)
		}
		end()
		b.work.Wait()
	})
}
