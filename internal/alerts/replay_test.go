package alerts

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// refusing is a destination that refuses everything until it is mended.
type refusing struct {
	sink
	mended atomic.Bool
}

func (r *refusing) Send(ctx context.Context, n provider.Notification) error {
	if !r.mended.Load() {
		return failure(event.Permanent, provider.LabelClient)
	}
	return r.sink.Send(ctx, n)
}

func (w *world) version(name, version string, s Sender) {
	w.destinations.Put("team-a", name, &Destination{UID: "p-" + name, Type: "generic", Version: version, Sender: s})
}

// TestMendingAProviderReplaysItsDeadDeliveriesInOrderAndOnce fails when replay does not compare versions or ignores the window, or when
// republish does not place the published deliveries before their successors.
func TestMendingAProviderReplaysItsDeadDeliveriesInOrderAndOnce(t *testing.T) {
	for name, restart := range map[string]bool{"while it runs": false, "while it is away": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, dest := newWorld(t), &refusing{}
				w.version("chat", "1", dest)
				_, stop := w.run()
				w.bus.publish(w.delivery("chat", "app")) // d1, too old for a replay
				wait(50 * time.Minute)
				for range 5 {
					w.bus.publish(w.delivery("chat", "app"))
				}
				wait(20 * time.Minute)
				if n := len(w.bus.deadLetters()); n != 6 {
					t.Fatalf("%d dead letters", n)
				}
				if restart {
					stop()
				}
				dest.mended.Store(true)
				w.version("chat", "2", dest)
				w.bus.publish(w.delivery("chat", "app"))
				if restart {
					_, stop = w.run()
				}
				wait(time.Minute)
				want := []string{"d2", "d3", "d4", "d5", "d6", "d7"}
				if got := dest.ids(); !slices.Equal(got, want) {
					t.Errorf("sent %v", got)
				}
				w.version("chat", "3", dest)
				wait(time.Minute)
				stop()
				_, stop = w.run()
				wait(time.Minute)
				stop()
				if got := dest.ids(); len(got) != 6 || len(w.bus.deadLetters()) != 1 || !w.bus.empty() {
					t.Errorf("sent %v, %d dead letters are left", got, len(w.bus.deadLetters()))
				}
			})
		})
	}
}

// TestADestinationThatIsMendedWithoutAChangeGetsWhatItRefusedOnceMore is about a channel that is made in the chat. Fails when attempted
// does not record that a success follows a refusal, when a replayed letter is replayed again, or when the Sender does not learn of the
// replay.
func TestADestinationThatIsMendedWithoutAChangeGetsWhatItRefusedOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, good := newWorld(t), &sink{}
		var mended atomic.Bool
		var refusals atomic.Int32
		w.version("chat", "1", sendFunc(func(ctx context.Context, n provider.Notification) error {
			if !mended.Load() || n.Event.InvolvedObject.Name == "never" {
				refusals.Add(1)
				return failure(event.Permanent, provider.LabelClient)
			}
			return good.Send(ctx, n)
		}))
		_, stop := w.run()
		w.bus.publish(w.delivery("chat", "app"), w.delivery("chat", "never"))
		wait(time.Minute)
		mended.Store(true)
		for range 10 {
			w.bus.publish(w.delivery("chat", "other"))
			wait(time.Minute)
		}
		stop()
		_, stop = w.run() // the dead letters of an unchanged Provider stay dead
		wait(time.Minute)
		stop()
		if got := good.ids(); len(got) != 11 || !slices.Contains(got, "d1") {
			t.Errorf("sent %v", got)
		}
		for _, n := range good.got {
			if n.Replayed != (n.DeliveryID == "d1") {
				t.Errorf("%s: replayed is %t", n.DeliveryID, n.Replayed)
			}
		}
		if refusals.Load() != 3 || len(w.bus.deadLetters()) != 1 {
			t.Errorf("%d refusals, %d dead letters", refusals.Load(), len(w.bus.deadLetters()))
		}
	})
}

// TestFinalDeadLettersAreNotReplayed fails when replay ignores final.
func TestFinalDeadLettersAreNotReplayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.version("chat", "1", dest)
		_, stop := w.run()
		w.bus.mu.Lock()
		for i, label := range final {
			d := w.delivery("chat", fmt.Sprint("app", i))
			w.bus.dead = append(w.bus.dead, &deadLetter{d, label, "", time.Now(), uint64(1000 + i)})
		}
		w.bus.mu.Unlock()
		stop()
		w.version("chat", "2", dest)
		_, stop = w.run()
		wait(time.Minute)
		stop()
		if got := dest.ids(); len(got) != 0 || len(w.bus.deadLetters()) != len(final) {
			t.Errorf("sent %v", got)
		}
	})
}
