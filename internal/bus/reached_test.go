package bus

import (
	"context"
	"testing"
	"time"

	"notifier/internal/event/view"
)

// Fails when a follower is told that the streams are read until a time, though an item from before that comes later: a follower that begins
// anew from then on would miss it. Also fails when it is not told while they can be read.
func TestAFollowerIsToldHowFarTheStreamsAreRead(t *testing.T) {
	t.Parallel()
	url := remote(t)
	network := newLink(t, url)
	b, other := open(t, "", func(o *Options) { o.URL = network.URL }), open(t, "", func(o *Options) { o.URL, o.ReplicaID = url, "other" })
	ctx := testContext(t)
	began, items := time.Now(), map[view.List]chan any{}
	for _, list := range []view.List{view.Deliveries, view.Events, view.Webhooks} {
		of := make(chan any, 100)
		items[list] = of
		start(t, func(ctx context.Context) error {
			return b.Follow(ctx, "team", list, func(item any) error {
				of <- item
				return nil
			})
		})
		for at := began; !at.After(began); {
			at = reachedAfter(at, receive(t, of))
		}
	}
	network.lossy.Store(true)
	lost := time.Now()
	d := testDelivery("meanwhile", "team", "slack")
	must(t, other.Sent(ctx, &d))
	published(t, other, "meanwhile", "team", "app")
	<-time.After(3 * followReport)
	network.lossy.Store(false)
	network.cut()
	for list := range items {
		came := list == view.Webhooks
		for at := lost; !at.After(lost); {
			item := receive(t, items[list])
			at = reachedAfter(lost, item)
			if _, is := item.(view.Item); is {
				came = true
			}
		}
		if !came {
			t.Errorf("%s: all from before are said to be read, and one of them has not come", list)
		}
	}
}

// reachedAfter returns the time of a view.Reached, and otherwise the time from before.
func reachedAfter(before time.Time, item any) time.Time {
	if r, is := item.(view.Reached); is {
		return r.At
	}
	return before
}
