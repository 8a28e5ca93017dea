package bus

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event"
)

// A consumer that was deleted while nothing was asked of it. The server then has nobody who answers a request for messages. Fails when such
// answers are taken for those of a consumer between two leaders for ever.
func TestAConsumerThatWasDeletedIsMadeAgain(t *testing.T) {
	t.Parallel()
	b := open(t, "", func(o *Options) { o.URL = remote(t) })
	began, deleted, got := make(chan struct{}, 10), make(chan struct{}), make(chan event.Trigger, 1000)
	r := triggerRole(b.TriggerShard("team"))
	s := stage[event.Trigger]{
		decode: decodeTrigger,
		serve: func(ctx context.Context, _ int, in <-chan event.Message[event.Trigger]) error {
			for {
				select {
				case m := <-in:
					got <- m.Value
					_ = m.Ack(ctx) // the term may have ended
				case <-ctx.Done():
					return nil
				}
			}
		},
	}
	start(t, func(ctx context.Context) error {
		b.serveOne(ctx, r, func(ctx context.Context, c *consumer) error {
			began <- struct{}{}
			select {
			case <-deleted:
			case <-ctx.Done():
				return nil
			}
			return consume(ctx, c, s)
		})
		return nil
	})
	receive(t, began)
	ctx := testContext(t)
	must(t, b.js.DeleteConsumer(ctx, r.stream, r.name))
	close(deleted)
	publish := time.NewTicker(100 * time.Millisecond)
	defer publish.Stop()
	for i := 0; ; i++ {
		select {
		case <-got:
			return
		case <-publish.C:
			must(t, b.PublishTriggers(ctx, testTrigger("team", fmt.Sprint(i), int64(i))))
		case <-ctx.Done():
			t.Fatal("nothing is read any more")
		}
	}
}

// Fails when a reader of what is stored waits for events that were removed after it had begun: with a remote server, where no event of
// this process makes up for them, the worker would count as not caught up, and send no waiting delivery, until another one is published.
func TestAReaderOfStoredEventsEndsThoughSomeAreRemovedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, kept := range []uint64{10, 0} {
		t.Run(fmt.Sprint(kept, " are kept"), func(t *testing.T) {
			t.Parallel()
			b := open(t, "", func(o *Options) { o.URL = remote(t) })
			ctx := testContext(t)
			const count = 4 * feedBatch
			var records []*event.Record
			for i := range count {
				records = append(records, testRecord(fmt.Sprint(i), "team", fmt.Sprint("app-", i)))
			}
			publishRecords(t, b, records...)
			remove := sync.OnceFunc(func() { must(t, b.streams[streamEvents].Purge(ctx, jetstream.WithPurgeKeep(kept))) })
			read := stored(t, b, time.Now().Add(-time.Hour), remove)
			if last, want := read[len(read)-1].ID, fmt.Sprint(count-1); kept > 0 && last != want {
				t.Errorf("the last event is %s, want %s", last, want)
			}
		})
	}
}
