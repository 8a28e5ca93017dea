package apply

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// fencedBus delivers triggers with a fence.
type fencedBus struct {
	Bus
	owned func() bool
}

func (b fencedBus) Triggers(ctx context.Context, serve func(context.Context, <-chan event.Message[event.Trigger]) error) error {
	return b.Bus.Triggers(event.WithFence(ctx, b.owned), serve)
}

// T4: a process that was stopped until another is the worker continues for a moment before its context ends. Fails when a write checks
// the context alone: the object then gets two requests within an interval.
func TestT4AnOwnerThatWasReplacedWritesNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var replaced atomic.Bool
		w := newWorld(t, func(o *Options) { o.Bus = fencedBus{o.Bus, func() bool { return !replaced.Load() }} })
		defer w.stop()
		r := w.receiver("team", "app", "deployer", repo("app"))
		first := w.send(trigger(r, repo("app")))
		pass(2 * time.Second)
		w.want(first, "done")
		replaced.Store(true)
		second := w.send(trigger(r, repo("app")))
		pass(5 * time.Second)
		w.want(second, "held")
		w.bus.end()
		w.want(second, "returned")
		if n := len(w.api.seen()); n != 1 {
			t.Errorf("%d requests, the second by who was replaced", n)
		}
	})
}

// T4: a process that was stopped for a minute waits no longer for a Receiver that it has not seen, and has not caught up yet. Fails when it then gives
// a trigger up that its successor has in hand: the message is gone, whatever becomes of the successor.
func TestT4AnOwnerThatWasReplacedGivesNoTriggerUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var replaced atomic.Bool
		w := newWorld(t, func(o *Options) { o.Bus = fencedBus{o.Bus, func() bool { return !replaced.Load() }} })
		defer w.stop()
		r := w.receiver("team", "app", "deployer", repo("app"))
		w.receivers.remove("team", "app")
		webhook := trigger(r, repo("app"))
		webhook.Generation = 1
		h := w.send(webhook)
		pass(2 * time.Second)
		replaced.Store(true)
		pass(2 * unseenFor)
		w.want(h, "held")
		w.bus.end()
		w.want(h, "returned")
	})
}
