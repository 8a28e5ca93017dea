package alerts

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
	"notifier/internal/event/view"
)

// TestAReplayThatLeavesOutAProviderSaysThatThereIsMore fails when the remaining letters of a Provider with too many requests look like
// letters that cannot be replayed, or when letters that have died again count as remaining.
func TestAReplayThatLeavesOutAProviderSaysThatThereIsMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		dest, other := &refusing{}, &refusing{}
		w.version("chat", "1", dest)
		w.version("mail", "1", other)
		d, _, stop := w.start()
		for _, provider := range []string{"chat", "mail"} {
			w.bus.publish(w.routed(provider, "app"))
		}
		wait(time.Minute)
		other.mended.Store(true)
		for range requestBurst {
			d.rate.Allow(event.ProviderKey{Namespace: "team-a", Provider: "chat"})
		}
		all := view.ReplayRequest{State: view.StateDead}
		first := replay(t, d, all)
		if first.Replayed != 1 || !first.More || !first.Until.Equal(time.Now()) {
			t.Errorf("%+v", first)
		}
		_, err := d.Replay(t.Context(), "team-a", all)
		if refusal, ok := errors.AsType[*event.Error](err); !ok || refusal.RetryAfter <= 0 {
			t.Errorf("%v", err)
		}
		wait(requestEvery)
		all.Until = first.Until
		if r := replay(t, d, all); r.Replayed != 1 || r.More || !r.Until.IsZero() {
			t.Errorf("%+v", r)
		}
		wait(time.Minute) // it is refused again
		if r := replay(t, d, all); r.Replayed != 0 || len(w.bus.deadLetters()) != 1 {
			t.Errorf("%+v, %d letters", r, len(w.bus.deadLetters()))
		}
		stop()
	})
}

// A change of a Provider counts though its dead letters are being listed for another reason, in vain. Fails when the end of that listing
// forgets the change: a letter that was replayed before is replayed for a change alone.
func TestAChangeDuringAListingThatFailsReplaysDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &refusing{}
		w.version("chat", "1", dest)
		_, stop := w.run()
		first := w.routed("chat", "app")
		w.bus.publish(first)
		wait(time.Minute)
		w.version("chat", "2", dest)
		wait(time.Minute) // it is replayed, and refused again
		var away atomic.Bool
		w.bus.mu.Lock()
		w.bus.faults = func(op string) error {
			if op == "deadletters" && away.Load() {
				return errCut
			}
			return nil
		}
		w.bus.mu.Unlock()
		away.Store(true)
		w.bus.slow(tickEvery/2, "deadletters")
		dest.mended.Store(true)
		second, third := w.routed("chat", "other"), w.routed("chat", "another")
		w.bus.publish(second) // it is accepted after the refusal: a reason to list the dead letters
		wait(time.Second)
		w.version("chat", "3", dest)
		w.bus.publish(third)
		wait(tickEvery / 4)
		away.Store(false)
		wait(time.Minute)
		if got := dest.ids(); !slices.Contains(got, first.ID) || len(got) != 3 {
			t.Errorf("%d are sent, the replayed one among them: %t", len(got), slices.Contains(got, first.ID))
		}
		stop()
	})
}

// The dead letters of a Provider are listed, in vain. Fails when the end of that listing sends by the Provider as it was at the beginning, which
// was suspended meanwhile, or sends what the shard has given back to the bus.
func TestAfterAListingThatFailsNothingIsSentThatMustNotBe(t *testing.T) {
	for name, change := range map[string]func(w *world, dest Sender, stop func()){
		"the Provider is suspended": func(w *world, dest Sender, _ func()) {
			w.destinations.Put("team-a", "chat", &Destination{UID: "p-chat", Type: "generic", Version: "2", Sender: dest, Suspended: true})
		},
		"the shard is given up": func(_ *world, _ Sender, stop func()) { stop() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, dest := newWorld(t), &refusing{}
				w.version("chat", "1", dest)
				_, stop := w.run()
				stop = sync.OnceFunc(stop)
				defer stop()
				w.bus.publish(w.routed("chat", "app"))
				wait(time.Minute)
				w.bus.mu.Lock()
				w.bus.faults = func(op string) error {
					if op == "deadletters" {
						return errCut
					}
					return nil
				}
				w.bus.mu.Unlock()
				w.bus.slow(time.Second, "deadletters")
				dest.mended.Store(true)
				w.version("chat", "2", dest)
				w.bus.publish(w.routed("chat", "other"))
				wait(time.Second / 2)
				change(w, dest, stop)
				wait(time.Minute)
				if n := dest.count(); n != 0 {
					t.Errorf("%d sent", n)
				}
			})
		})
	}
}
