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

// formerOwner is an owner of all shards that continues for a while after another has replaced it.
type formerOwner struct {
	session   *fakeSession
	deliverer *Deliverer
	replaced  atomic.Bool
	// end ends the owner's context and waits for it.
	end func()
}

// own starts an owner.
func (w *world) own() *formerOwner {
	o := &formerOwner{session: w.bus.session()}
	o.deliverer = w.deliverer(o.session)
	ctx, cancel := context.WithCancel(event.WithFence(w.t.Context(), func() bool { return !o.replaced.Load() }))
	ended := make(chan error)
	go func() { ended <- o.deliverer.Run(ctx) }()
	o.end = func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	}
	return o
}

// E3: a process that was stopped until another owns the shard continues for a moment before its context ends. Fails when a send checks
// the context alone.
func TestE3AnOwnerThatWasReplacedSendsNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.destination("chat", dest)
		o := w.own()
		w.bus.publish(w.delivery("chat", "app"))
		wait(time.Second)
		o.replaced.Store(true)
		w.bus.publish(w.delivery("chat", "app"), w.delivery("chat", "other"))
		wait(time.Second)
		o.end()
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
		o := w.own()
		for _, object := range []string{"app", "app", "other-1", "other-2", "other-3"} {
			w.bus.publish(w.delivery("chat", object))
		}
		wait(time.Second)
		o.replaced.Store(true)
		o.session.kill()
		for range 4 {
			release <- struct{}{}
			wait(time.Second)
		}
		o.end()
		if n := o.deliverer.heldBytes.Load(); n != 0 {
			t.Errorf("%d bytes are counted when nothing is in memory", n)
		}
	})
}

// E2: a process that was stopped for a minute goes on with what it knew before, so that an Alert of which it has not heard seems to be gone.
// Fails when it gives the delivery up, which its successor has in hand, before its context ends.
func TestE2AnOwnerThatWasReplacedGivesNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.destination("chat", dest)
		w.alerts.Delete("team-a/alert")
		o := w.own()
		w.bus.publish(w.delivery("chat", "app"))
		wait(ownerGrace / 2)
		o.replaced.Store(true)
		wait(ownerGrace)
		o.end()
		if dead := w.bus.deadLetters(); len(dead) > 0 {
			t.Errorf("given up: %s", dead[0].label)
		}
		w.alert("team-a", "alert", "uid-1", "chat")
		_, stop := w.run() // the next owner
		wait(time.Second)
		stop()
		if diff := cmp.Diff([]string{"d1"}, dest.ids()); diff != "" || !w.bus.empty() {
			t.Errorf("empty %t: %s", w.bus.empty(), diff)
		}
	})
}
