package alerts

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

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
