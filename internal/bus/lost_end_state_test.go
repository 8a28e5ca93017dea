package bus

import (
	"context"
	"fmt"
	"testing"
)

// Fails when a watch of a bucket misses the changes that have the revisions of lost ones, so that statuses stay as they were.
func TestAWatchIsToldOfChangesInThePlacesOfLostOnes(t *testing.T) {
	t.Parallel()
	s := newRelapsing(t)
	writer := open(t, "", func(o *Options) { o.URL = s.server.ClientURL() })
	watcher := open(t, "", func(o *Options) { o.URL = s.server.ClientURL() })
	seen := make(chan string, 1000)
	start(t, func(ctx context.Context) error {
		for ctx.Err() == nil {
			_ = watcher.Health().Watch(ctx, func(key string, value []byte) { seen <- string(value) })
		}
		return nil
	})
	put := func(prefix string, count int) {
		t.Helper()
		for i := range count {
			persist(t, func(ctx context.Context) error {
				return writer.Health().Put(ctx, "Receiver/team/app", []byte(fmt.Sprint(prefix, i)))
			})
		}
		for got := ""; got != fmt.Sprint(prefix, count-1); {
			got = receive(t, seen)
		}
	}
	put("kept", 3)
	s.save()
	put("lost", 9)
	s.lose(bucketStream + bucketHealth)
	put("new", 3)
}

// E3: fails when a worker takes a delivery as unsent whose record has the place of a lost one, with fewer of them than were lost or with more.
func TestE3RecordsInThePlacesOfLostOnesAreRead(t *testing.T) {
	t.Parallel()
	const lost = 9
	for _, many := range []int{3, 2 * lost} {
		t.Run(fmt.Sprint(many), func(t *testing.T) {
			t.Parallel()
			s := newRelapsing(t)
			other := open(t, "", func(o *Options) { o.URL = s.server.ClientURL() })
			worker := open(t, "", func(o *Options) { o.URL = s.server.ClientURL() })
			begin := func() { persist(t, worker.history.load) }
			send := func(prefix string, count int) {
				for i := range count {
					d := testDelivery(fmt.Sprint(prefix, i), "team", "slack")
					persist(t, func(ctx context.Context) error { return other.Sent(ctx, &d) })
				}
			}
			send("kept", 3)
			s.save()
			send("lost", lost)
			begin()
			s.lose(streamHistory)
			send("new", many)
			begin()
			for i := range many {
				d := testDelivery(fmt.Sprint("new", i), "team", "slack")
				found, err := worker.WasSent(testContext(t), &d)
				must(t, err)
				if !found {
					t.Errorf("%s counts as unsent", d.ID)
				}
			}
		})
	}
}
