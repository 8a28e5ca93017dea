package bus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"notifier/internal/event"
	"notifier/internal/event/view"
	"notifier/internal/fair"
)

// relapsing is a server that can lose the ends of streams.
type relapsing struct {
	t      *testing.T
	server *server.Server
	saved  string
}

func newRelapsing(t *testing.T) *relapsing {
	r := &relapsing{t: t, server: startServer(t, t.TempDir(), server.RANDOM_PORT), saved: t.TempDir()}
	t.Cleanup(func() { r.server.Shutdown(); r.server.WaitForShutdown() })
	return r
}

// restart changes the files of the streams while the server is down.
func (r *relapsing) restart(change func(streams string) error) {
	r.t.Helper()
	dir, port := r.server.StoreDir(), r.server.Addr().(*net.TCPAddr).Port
	r.server.Shutdown()
	r.server.WaitForShutdown()
	must(r.t, change(filepath.Join(dir, "$G", "streams")))
	r.server = startServer(r.t, filepath.Dir(dir), port)
}

func (r *relapsing) save() {
	r.t.Helper()
	r.restart(func(streams string) error { return os.CopyFS(r.saved, os.DirFS(streams)) })
}

// lose loses what a stream has stored since save.
func (r *relapsing) lose(stream string) {
	r.t.Helper()
	r.restart(func(streams string) error {
		stored := filepath.Join(streams, stream)
		return errors.Join(os.RemoveAll(stored), os.CopyFS(stored, os.DirFS(filepath.Join(r.saved, stream))))
	})
}

// persist calls do until it succeeds.
func persist(t *testing.T, do func(ctx context.Context) error) {
	t.Helper()
	ctx := testContext(t)
	for err := do(ctx); err != nil; err = do(ctx) {
		must(t, ctx.Err())
		_ = fair.Sleep(ctx, 10*time.Millisecond)
	}
}

// Fails when a follower is not told of the items that have the places of lost ones, with fewer of them than were lost or with more.
func TestFollowersAreToldOfItemsInThePlacesOfLostOnes(t *testing.T) {
	t.Parallel()
	const lost = 9
	publishEvent := func(ctx context.Context, b *Bus, id string) error {
		_, err := b.PublishEvent(ctx, testRecord(id, "team", "app"))
		return err
	}
	for name, test := range map[string]struct {
		stream  string
		publish func(ctx context.Context, b *Bus, id string) error
		follow  func(t *testing.T, b *Bus) <-chan any
		id      func(item any) string
	}{
		"a list of events": {streamEvents, publishEvent, func(t *testing.T, b *Bus) <-chan any {
			return followTo(t, b, "team", view.Events)
		}, func(item any) string { return item.(view.Event).ID }},
		"a list of webhooks": {streamWebhooks, func(ctx context.Context, b *Bus, id string) error {
			return b.RecordWebhooks(ctx, "team", "r", []view.Webhook{{Namespace: "team", Receiver: "r", Result: id}})
		}, func(t *testing.T, b *Bus) <-chan any {
			return followTo(t, b, "team", view.Webhooks)
		}, func(item any) string { return item.(view.Webhook).Result }},
		"a list of deliveries": {streamDeliveries, func(ctx context.Context, b *Bus, id string) error {
			d := testDelivery(id, "team", "slack")
			return b.Reschedule(ctx, &d, time.Now().Add(time.Hour))
		}, func(t *testing.T, b *Bus) <-chan any {
			return followTo(t, b, "team", view.Deliveries)
		}, func(item any) string { return item.(view.Delivery).ID }},
		"events": {streamEvents, publishEvent, func(t *testing.T, b *Bus) <-chan any {
			records, begun := make(chan any, 100), make(chan struct{})
			start(t, following(b, time.Now(), func(r *event.Record) { records <- r }, func() { close(begun) }))
			<-begun
			return records
		}, func(item any) string { return item.(*event.Record).ID }},
	} {
		for _, many := range []int{3, 2 * lost} {
			t.Run(fmt.Sprint(name, ", ", many), func(t *testing.T) {
				t.Parallel()
				s := newRelapsing(t)
				network := newLink(t, s.server.ClientURL())
				writer := open(t, "", func(o *Options) { o.URL = s.server.ClientURL() })
				items := test.follow(t, open(t, "", func(o *Options) { o.URL = network.URL }))
				publish := func(prefix string, count int) {
					for i := range count {
						persist(t, func(ctx context.Context) error { return test.publish(ctx, writer, fmt.Sprint(prefix, i)) })
					}
				}
				told := func(prefix string, count int) {
					for i := 0; i < count; {
						if test.id(receive(t, items)) == fmt.Sprint(prefix, i) {
							i++
						}
					}
				}
				publish("kept", 3)
				told("kept", 3)
				s.save()
				publish("lost", lost)
				told("lost", lost)
				network.down.Store(true)
				s.lose(test.stream)
				publish("new", many)
				network.down.Store(false)
				told("new", many)
			})
		}
	}
}
