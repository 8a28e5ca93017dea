package alerts

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
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

// Fails when an owner's request that is out of time takes the places of deliveries that the replay of the mended Provider publishes, or has
// published, so that what follows them is sent before them; or when both together leave a letter.
func TestE4ARequestLeavesAMendedProvidersReplayItsPlaces(t *testing.T) {
	for late := 1050 * time.Millisecond; late < 3*time.Second; late += 100 * time.Millisecond {
		t.Run(late.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { replayTwice(t, busTimeout+late) })
		})
	}
}

// replayTwice mends a Provider and requests a replay at once, which ends within a time. The deliveries of one object are older, and died once
// more since, so that the request begins with them, and the other replay with those of the other object. It reads more letters than the request
// before it publishes.
func replayTwice(t *testing.T, within time.Duration) {
	w := newWorld(t)
	w.version("chat", "1", sendFunc(func(context.Context, provider.Notification) error {
		return failure(event.Permanent, provider.LabelClient)
	}))
	d, _, stop := w.startWith(func(d *Deliverer, _ *fakeSession) { d.ReplayWindow = DefaultReplayWindow })
	publish := func(object string, n int) (ids []string) {
		for range n {
			is := w.routed("chat", object)
			ids = append(ids, is.ID)
			w.bus.publish(is)
		}
		wait(time.Minute)
		return ids
	}
	older, want := publish("older", 6), publish("app", 12)
	if r := replay(t, d, view.ReplayRequest{IDs: older}); r.Replayed != len(older) {
		t.Fatalf("%+v", r)
	}
	wait(5 * time.Minute)
	w.bus.slow(100*time.Millisecond, "replay", "deadletters")
	var mu sync.Mutex
	refused, got := map[string]bool{}, []string(nil)
	w.version("chat", "2", sendFunc(func(_ context.Context, n provider.Notification) error {
		mu.Lock()
		defer mu.Unlock()
		of := n.Event.InvolvedObject.Name
		if of == "app" && (len(got) == len(want) || n.DeliveryID != want[len(got)]) {
			t.Errorf("%s is sent after %v", n.DeliveryID, got)
		}
		if !refused[n.DeliveryID] {
			refused[n.DeliveryID] = true
			return failure(event.Retry, provider.LabelServer)
		}
		if of == "app" {
			got = append(got, n.DeliveryID)
		}
		return nil
	}))
	w.bus.publish(w.routed("chat", "new"))
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	_, _ = d.Replay(ctx, "team-a", view.ReplayRequest{IDs: slices.Concat(older, want[:4])})
	wait(10 * time.Minute)
	stop()
	if len(got) != len(want) || !w.bus.empty() || len(w.bus.deadLetters()) > 0 {
		t.Errorf("sent %v; %d are dead", got, len(w.bus.deadLetters()))
	}
}

// Fails when a request that is out of time takes the place of a delivery of which another message came: its retry is due, and what follows it is
// sent before it.
func TestE4ARequestLeavesThePlaceOfADeliveryThatCameMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &refusing{}
		w.version("chat", "1", dest)
		d, _, stop := w.start()
		other, first := w.routed("chat", "other"), w.routed("chat", "app")
		w.bus.publish(other)
		w.bus.publish(first)
		wait(time.Minute)
		w.bus.slow(100*time.Millisecond, "replay")
		var mu sync.Mutex
		refused, got := false, []string(nil)
		w.version("chat", "2", sendFunc(func(_ context.Context, n provider.Notification) error {
			mu.Lock()
			defer mu.Unlock()
			if n.DeliveryID == first.ID && !refused {
				refused = true
				return failure(event.Retry, provider.LabelServer)
			}
			got = append(got, n.DeliveryID)
			return nil
		}))
		requested := make(chan view.ReplayResult)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), busTimeout+50*time.Millisecond)
			defer cancel()
			result, _ := d.Replay(ctx, "team-a", view.ReplayRequest{IDs: []string{other.ID, first.ID}})
			requested <- result
		}()
		pass(10 * time.Millisecond)
		older := first
		older.Reschedules, older.Recheck = 1, true
		w.bus.publish(older) // the acknowledgement of its message was lost
		if result := <-requested; result.Replayed != 1 || !result.More {
			t.Fatalf("%+v", result)
		}
		next := w.routed("chat", "app")
		w.bus.publish(next)
		wait(10 * time.Minute)
		stop()
		if !slices.Equal(got, []string{other.ID, first.ID, next.ID}) || !refused {
			t.Errorf("sent %v, want %s before %s", got, first.ID, next.ID)
		}
	})
}
