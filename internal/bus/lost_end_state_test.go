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
