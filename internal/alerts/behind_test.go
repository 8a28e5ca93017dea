package alerts

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// handingBus hands out what a test puts into its channel, once the shard is served.
type handingBus struct {
	*fakeSession
	in    chan event.Message[event.Delivery]
	serve chan struct{}
}

func (s handingBus) Deliveries(
	ctx context.Context, serve func(context.Context, int, <-chan event.Message[event.Delivery]) error,
) error {
	<-s.serve
	return serve(ctx, 0, s.in)
}

// handing starts a Deliverer on a handingBus. It returns a function that hands a delivery out that was rescheduled once.
func (w *world) handing() (d *Deliverer, serve chan struct{}, hand func(event.Delivery)) {
	s := handingBus{w.bus.session(), make(chan event.Message[event.Delivery]), make(chan struct{})}
	d = w.deliverer(s.fakeSession)
	d.Source = s
	ctx, cancel := context.WithCancel(w.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := d.Run(ctx); err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return d, s.serve, func(d event.Delivery) {
		d.Reschedules = 1
		s.in <- event.Message[event.Delivery]{Value: d, Acker: &openEvents{}}
	}
}

// T6 and E5: after a change of the worker, the events of one namespace from before it take long to route. Fails when the retries of
// another namespace wait for that, or when its own retries do not.
func TestT6OneNamespacesOldEventsHoldBackNoOthersRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.destination("chat", dest)
		w.alert("busy", "alert", "uid-1", "chat")
		w.destinations.Put("busy", "chat", &Destination{UID: "p-chat", Type: "generic", Sender: dest})
		d, serve, hand := w.handing()
		close(serve)
		var caughtUp atomic.Bool
		d.Begin(func(namespace string) bool { return namespace == "busy" && !caughtUp.Load() })
		busy, other := w.delivery("chat", "app"), w.delivery("chat", "app")
		busy.Namespace, busy.Event.InvolvedObject.Namespace = "busy", "busy"
		hand(busy)
		hand(other)
		wait(10 * time.Minute)
		if got := dest.ids(); !slices.Equal(got, []string{other.ID}) {
			t.Errorf("while %s's events are routed, sent %v, want the other namespace's", busy.Namespace, got)
		}
		caughtUp.Store(true)
		d.CaughtUp(t.Context())
		synctest.Wait()
		if got := dest.ids(); !slices.Equal(got, []string{other.ID, busy.ID}) {
			t.Errorf("at the end, sent %v", got)
		}
	})
}

// E4: a router has dispatched all, and ends before the shard is served. Fails when the shard sends what waits on the schedule before the
// next router has dispatched the older events again.
func TestE4NothingOvertakesWhatAFormerRouterKeptForAShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.destination("chat", dest)
		d, serve, hand := w.handing()
		older, younger := w.delivery("chat", "app"), w.delivery("chat", "app")
		dispatch := func(router context.Context) {
			d.Begin(allCaughtUp)
			if err := d.Dispatch(router, []event.Message[event.Delivery]{{Value: older, Acker: &openEvents{}}}); err != nil {
				t.Error(err)
			}
			d.CaughtUp(router)
		}
		router, end := context.WithCancel(t.Context())
		dispatch(router)
		end()
		close(serve)
		hand(younger)
		wait(10 * time.Minute)
		if got := dest.ids(); len(got) != 0 {
			t.Errorf("sent before the older event: %v", got)
		}
		dispatch(t.Context())
		wait(time.Second)
		if got := dest.ids(); !slices.Equal(got, []string{older.ID, younger.ID}) {
			t.Errorf("sent %v", got)
		}
	})
}

// T6: a tenant's events are for very many of its Alerts, and a shard is not served yet. Fails when the deliveries that are kept for the shard
// do not count as in memory, so that more and more are made, or when they still count once they are sent or are the next router's.
func TestT6WhatIsKeptForAShardCountsAsInMemory(t *testing.T) {
	for name, taken := range map[string]bool{"the shard is served": true, "the next router begins": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, dest := newWorld(t), &sink{}
				w.destination("chat", dest)
				d, serve, _ := w.handing()
				d.Begin(allCaughtUp)
				var many []event.Message[event.Delivery]
				for range namespaceHeldBytes >> 20 {
					large := w.delivery("chat", "app")
					large.Event.Message = strings.Repeat("m", 1<<20)
					many = append(many, event.Message[event.Delivery]{Value: large, Acker: &openEvents{}})
				}
				if err := d.Dispatch(t.Context(), many); err != nil {
					t.Error(err)
				}
				if !d.Full("team-a") || d.Full("team-b") {
					t.Errorf("full is %v, of a namespace without deliveries %v", d.Full("team-a"), d.Full("team-b"))
				}
				if !taken {
					d.Begin(allCaughtUp)
				}
				close(serve)
				wait(time.Minute)
				if d.Full("team-a") || taken != (dest.count() == len(many)) || d.shares.of["team-a"] != nil && d.shares.of["team-a"].held.Load() != 0 {
					t.Errorf("full at the end: %v, %d sent", d.Full("team-a"), dest.count())
				}
			})
		})
	}
}
