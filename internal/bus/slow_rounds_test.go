package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
)

// newSlowBus returns a bus whose server takes a time for each message, until ctx ends.
func newSlowBus(ctx context.Context, t *testing.T, stream string, syncs time.Duration) (*Bus, *slowDisk) {
	b, disk := newBus(Options{Shards: defaultShards, Budgets: defaultBudgets()}), newSlowDisk(ctx, stream, syncs)
	b.js = disk
	var err error
	b.metrics, err = newMetrics(prometheus.NewRegistry(), func() bool { return true })
	must(t, err)
	b.stats, b.pendingTriggers, b.triggerQuotas = newStats(b), newPendingTriggers(), newTriggerQuotas(b)
	b.triggers = newTriggerCommitter(b)
	b.history = newHistory(b)
	return b, disk
}

// E5. Many deliveries to as many Providers are sent at once, and a server with a slow disk records them, each again after an error, as a
// shard does. Fails when a round has more messages than the server stores in the time for which they are awaited: no record ever was
// known to be stored, and the Providers' next deliveries were not sent. Fails also when records are given up and written again, but for those
// of one round: the first is as large as it happens to be.
func TestE5ASlowDiskIsNotGivenMoreRecordsThanItStores(t *testing.T) {
	const syncs, providers, each = 40 * time.Millisecond, 200, 3
	for _, first := range []int{1, 14, 30, maxRound} {
		t.Run(fmt.Sprintf("%d in the first round", first), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				until, end := context.WithTimeout(t.Context(), 10*time.Minute)
				defer end()
				b, _ := newSlowBus(until, t, streamHistory, syncs)
				record := func(provider int) {
					for n := range each {
						d := testDelivery(fmt.Sprint(provider, "-", n), fmt.Sprint("team-", provider%10), fmt.Sprint("p", provider))
						for gap := 200 * time.Millisecond; until.Err() == nil && b.Sent(until, &d) != nil; gap = min(2*gap, 2*time.Second) {
							pass(gap)
						}
					}
				}
				rounds := b.history.rounds
				rounds.busy = true // so they wait
				began := time.Now()
				var all sync.WaitGroup
				for i := range providers {
					if i == first {
						synctest.Wait()
						rounds.work.Go(func() { rounds.commitAll(until) })
						synctest.Wait()
					}
					all.Go(func() { record(i) })
				}
				all.Wait()
				if took, want := time.Since(began), providers*each*syncs; took > want*5/4 {
					t.Errorf("took %s, the disk needs %s", took, want)
				}
				end()
				b.work.Wait()
			})
		})
	}
}

// T6. Fails when a namespace with more webhooks than a slow disk stores has those of others refused, or when the disk works for webhooks that
// were refused.
func TestT6ASlowDiskServesOthersDuringAFloodOfTriggers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const syncs, lasts = 40 * time.Millisecond, 2 * time.Minute
		until, end := context.WithTimeout(t.Context(), lasts)
		defer end()
		b, _ := newSlowBus(until, t, streamTriggers, syncs)
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

// slowRemovals is a stream of a server that removes one message after the other, each with a sync. A removed one takes no time.
type slowRemovals struct {
	jetstream.Stream
	turn             chan struct{}
	removed          map[uint64]bool
	waiting, waiters atomic.Int64 // now, and at most
}

func (s *slowRemovals) DeleteMsg(ctx context.Context, seq uint64) error {
	s.waiters.Store(max(s.waiters.Load(), s.waiting.Add(1)))
	done := make(chan struct{})
	go func() { // a server knows nothing of time-outs
		defer close(done)
		defer s.waiting.Add(-1)
		s.turn <- struct{}{}
		defer func() { <-s.turn }()
		if !s.removed[seq] {
			pass(40 * time.Millisecond)
			s.removed[seq] = true
		}
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// E5. Many deliveries that waited are sent at once, and taken off the schedule. Fails when a server with a slow disk is asked for more of
// that than it does in time, and again: whatever else it is asked for waits behind.
func TestE5ASlowDiskIsAskedForFewRemovals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus(Options{Shards: defaultShards})
		stream := &slowRemovals{turn: make(chan struct{}, 1), removed: map[uint64]bool{}}
		b.streams[streamDeliveries] = stream
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				sent := &rescheduled{bus: b, namespace: fmt.Sprint("team-", i%10), seq: uint64(i)}
				for {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					err := sent.Ack(ctx)
					cancel()
					if err == nil {
						return
					}
					pass(time.Second)
				}
			})
		}
		all.Wait()
		if n := stream.waiters.Load(); n > maxUnanswered {
			t.Errorf("%d removals waited for the disk", n)
		}
	})
}

// T3. Fails when a message that waited for too long, and is not written, counts as stored, or when one that came late enough is refused.
func TestT3AMessageThatWaitedForTooLongIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStream()
		first := f.join(t.Context(), "first", 1)
		write := <-f.started
		early := f.join(t.Context(), "early", 1)
		pass(publishTimeout / 2)
		late := f.join(t.Context(), "late", 1)
		pass(publishTimeout / 4)
		write.finish(nil)
		write = <-f.started
		if got := bodies(write.msgs); len(got) != 1 || got[0] != "late=1" {
			t.Errorf("written: %v", got)
		}
		if err := <-early; err == nil {
			t.Error("a message that is not written counts as stored")
		}
		write.finish(nil)
		if err := errors.Join(<-first, <-late); err != nil {
			t.Error(err)
		}
		f.work.Wait()
	})
}
