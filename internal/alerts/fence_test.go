package alerts

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// E3: a process that was stopped until another owns the shard continues for a moment before its context ends. Fails when a send checks
// the context alone.
func TestE3AnOwnerThatWasReplacedSendsNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.destination("chat", dest)
		s := w.bus.session()
		d := w.deliverer(s)
		var replaced atomic.Bool
		ctx, cancel := context.WithCancel(event.WithFence(t.Context(), func() bool { return !replaced.Load() }))
		ended := make(chan error)
		go func() { ended <- d.Run(ctx) }()
		w.bus.publish(w.delivery("chat", "app"))
		wait(time.Second)
		replaced.Store(true)
		w.bus.publish(w.delivery("chat", "app"), w.delivery("chat", "other"))
		wait(time.Second)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"d1"}, dest.ids()); diff != "" {
			t.Error(diff)
		}
		_, stop := w.run() // the next owner
		wait(time.Minute)
		stop()
		got := dest.ids()
		slices.Sort(got) // they are of two objects
		if diff := cmp.Diff([]string{"d1", "d2", "d3"}, got); diff != "" || !w.bus.empty() {
			t.Errorf("empty %t: %s", w.bus.empty(), diff)
		}
	})
}

// An owner that was replaced may have several deliveries of one object, and sends under way, before its context ends. Fails when a delivery
// that was returned stays the first of its line: then it is tried and returned once more when another send ends, and leaves the counts of
// what is in memory each time. These bound the memory of all namespaces together, and outlast the term.
func TestADeliveryThatAReplacedOwnerReturnsLeavesTheCountsOfMemoryOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		release := make(chan struct{})
		w.destination("chat", sendFunc(func(context.Context, provider.Notification) error {
			<-release
			return errors.New("connection lost")
		}))
		s := w.bus.session()
		d := w.deliverer(s)
		var replaced atomic.Bool
		ctx, cancel := context.WithCancel(event.WithFence(t.Context(), func() bool { return !replaced.Load() }))
		ended := make(chan error)
		go func() { ended <- d.Run(ctx) }()
		for _, object := range []string{"app", "app", "other-1", "other-2", "other-3"} {
			w.bus.publish(w.delivery("chat", object))
		}
		wait(time.Second)
		replaced.Store(true)
		s.kill()
		for range 4 {
			release <- struct{}{}
			wait(time.Second)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := d.heldBytes.Load(); n != 0 {
			t.Errorf("%d bytes are counted when nothing is in memory", n)
		}
	})
}
