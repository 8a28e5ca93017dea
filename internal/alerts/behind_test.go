package alerts

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// T6 and E5: after a change of the worker, the events of one namespace from before it take long to route. Fails when the retries of
// another namespace wait for that, or when its own retries do not.
func TestT6OneNamespacesOldEventsHoldBackNoOthersRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.destination("chat", dest)
		w.alert("busy", "alert", "uid-1", "chat")
		w.destinations.Put("busy", "chat", &Destination{UID: "p-chat", Type: "generic", Sender: dest})
		d, bus := w.handing()
		close(bus.serve)
		var caughtUp atomic.Bool
		d.Begin(func(namespace string) bool { return namespace == "busy" && !caughtUp.Load() })
		busy, other := w.delivery("chat", "app"), w.delivery("chat", "app")
		busy.Namespace, busy.Event.InvolvedObject.Namespace = "busy", "busy"
		bus.hand(busy)
		bus.hand(other)
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

// T6: a tenant's events are for very many of its Alerts, and a shard is not served yet. Fails when the deliveries that are kept for the shard
// do not count as in memory, so that more and more are made, or when they still count once they are sent or are the next router's.
func TestT6WhatIsKeptForAShardCountsAsInMemory(t *testing.T) {
	for name, taken := range map[string]bool{"the shard is served": true, "the next router begins": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, dest := newWorld(t), &sink{}
				w.destination("chat", dest)
				d, bus := w.handing()
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
				close(bus.serve)
				wait(time.Minute)
				if d.Full("team-a") || taken != (dest.count() == len(many)) || d.shares.of["team-a"] != nil && d.shares.of["team-a"].held.Load() != 0 {
					t.Errorf("full at the end: %v, %d sent", d.Full("team-a"), dest.count())
				}
			})
		})
	}
}
