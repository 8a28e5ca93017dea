package bus

import (
	"context"
	"fmt"
	"testing"
	"time"

	"notifier/internal/event"
)

// A consumer that was deleted while nothing was asked of it, as that of EVENTS is without a Receiver of type event. The server then has
// nobody who answers a request for messages. Fails when such answers are taken for those of a consumer between two leaders for ever.
func TestAConsumerThatWasDeletedIsMadeAgain(t *testing.T) {
	t.Parallel()
	b := open(t, "", func(o *Options) { o.URL = remote(t) })
	began, deleted, got := make(chan struct{}, 10), make(chan struct{}), make(chan *event.Record, 1000)
	start(t, func(ctx context.Context) error {
		return b.Subscribe(ctx, func(ctx context.Context, events event.Reader) error {
			began <- struct{}{}
			select {
			case <-deleted:
			case <-ctx.Done():
				return nil
			}
			return events.Read(ctx, func(_ context.Context, batch []*event.Record) error {
				for _, r := range batch {
					got <- r
				}
				return nil
			})
		})
	})
	receive(t, began)
	ctx := testContext(t)
	must(t, b.js.DeleteConsumer(ctx, streamEvents, subscribeRole().name))
	close(deleted)
	publish := time.NewTicker(100 * time.Millisecond) // what is published before it is made again is not for it
	defer publish.Stop()
	for i := 0; ; i++ {
		select {
		case <-got:
			return
		case <-publish.C:
			_, err := b.PublishEvent(ctx, testRecord(fmt.Sprint(i), "team", "app"))
			must(t, err)
		case <-ctx.Done():
			t.Fatal("nothing is read any more")
		}
	}
}
