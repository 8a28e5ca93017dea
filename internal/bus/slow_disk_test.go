package bus

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// slowDisk is the JetStream of a server that syncs each message before it stores the next, and takes as long for each.
type slowDisk struct {
	jetstream.JetStream
	stream string
	sync   time.Duration
	queue  chan *lateFuture
	most   atomic.Int64  // messages that waited at a time
	answer time.Duration // for which the client awaits an answer
}

func newSlowDisk(ctx context.Context, stream string, sync time.Duration) *slowDisk {
	s := &slowDisk{stream: stream, sync: sync, queue: make(chan *lateFuture, 1<<20), answer: publishTimeout}
	go func() {
		var seq uint64
		for {
			select {
			case f := <-s.queue:
				s.most.Store(max(s.most.Load(), int64(len(s.queue)+1)))
				pass(s.sync)
				seq++
				f.ok <- &jetstream.PubAck{Stream: s.stream, Sequence: seq}
			case <-ctx.Done():
				return
			}
		}
	}()
	return s
}

func (s *slowDisk) PublishMsgAsync(*nats.Msg, ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	f := &lateFuture{ok: make(chan *jetstream.PubAck, 1), err: make(chan error, 1)}
	s.queue <- f
	time.AfterFunc(s.answer, func() { f.err <- jetstream.ErrAsyncPublishTimeout }) // as the client does
	return f, nil
}

// Many deliveries are put on the schedule of a server with a slow disk, each again after an error, as a shard does. Fails when more are on
// their way than the server stores in the time of one publish: all its answers are late, and what is published again makes them later, so
// nothing was ever known to be stored, and no delivery was sent. Fails also when the deliveries of one namespace hold up those of another.
func TestE5ASlowDiskIsNotGivenMoreThanItStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const syncs = 20 * time.Millisecond
		until, end := context.WithTimeout(t.Context(), 10*time.Minute)
		defer end()
		b, disk := newSlowBus(until, t, streamDeliveries, syncs)
		b.quotas[streamDeliveries] = newQuotas(jetstream.StreamConfig{Name: streamDeliveries, MaxBytes: 1 << 30})
		reschedule := func(namespace string, i int) (took time.Duration) {
			began := time.Now()
			for gap := 200 * time.Millisecond; ; gap = min(2*gap, 2*time.Second) {
				ctx, cancel := context.WithTimeout(until, 2*time.Second)
				subject := fmt.Sprintf("%s0.%s.p%d", prefixRetry, namespace, i)
				err := b.publishUnlessThere(ctx, streamDeliveries, newMsg(subject, nil))
				cancel()
				if err == nil || until.Err() != nil {
					return time.Since(began)
				}
				pass(gap)
			}
		}
		const writers, each = 1000, 3
		began := time.Now()
		var all sync.WaitGroup
		for i := range writers {
			all.Go(func() {
				for n := range each {
					reschedule("team-a", i*each+n)
				}
			})
		}
		pass(5 * time.Second)
		for i := range 10 {
			if took := reschedule("team-b", i); took > 2*time.Second {
				t.Errorf("another namespace's took %s", took)
			}
		}
		all.Wait()
		if took, want := time.Since(began), writers*each*syncs; took > want*3/2 {
			t.Errorf("took %s, the disk needs %s", took, want)
		}
		if n := disk.most.Load(); n > maxUnanswered {
			t.Errorf("%d messages waited for the disk", n)
		}
	})
}
