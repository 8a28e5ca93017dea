package alerts

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// whileUp returns a Sender to a destination that takes a time for each send and is reachable while up is true.
func whileUp(up *atomic.Bool, took time.Duration, dest Sender) Sender {
	return sendFunc(func(ctx context.Context, n provider.Notification) error {
		pass(took)
		if !up.Load() {
			return event.NewError(event.Retry, provider.LabelConnect, "no connection", nil)
		}
		return dest.Send(ctx, n)
	})
}

// TestWaitingCostsNoWritesHoweverLong fails when putBack reschedules for a time before the destination is up, or when a recalled delivery
// is rescheduled anew to return to the schedule.
func TestWaitingCostsNoWritesHoweverLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 400 {
			w.bus.publish(w.unbound("missing", fmt.Sprint("app", i)))
		}
		_, stop := w.run()
		wait(time.Minute)
		before := len(w.bus.parkings())
		if before > 400 {
			t.Errorf("%d writes put 400 deliveries away", before)
		}
		wait(20 * time.Hour)
		if n := len(w.bus.parkings()) - before; n != 0 {
			t.Errorf("%d writes in 20 hours of waiting", n)
		}
		if w.bus.recalled() > 2*400 {
			t.Errorf("%d reads in 20 hours of waiting", w.bus.recalled())
		}
		dest := &sink{}
		w.destination("missing", dest)
		began := time.Now()
		wait(time.Minute)
		stop()
		if n := dest.count(); n != 400 || !w.bus.empty() {
			t.Fatalf("%d of 400 were sent", n)
		}
		if took := dest.when[399].Sub(began); took > 2*lookAgain {
			t.Errorf("the backlog took %v", took)
		}
	})
}

// TestADeliveryRecalledInVainGoesBackWithoutAWrite is about a destination that is up for a moment only: a good part of the backlog is in
// memory when it fails again. Fails when putBack reschedules a delivery that is unchanged on the schedule.
func TestADeliveryRecalledInVainGoesBackWithoutAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		var up atomic.Bool
		w.destination("chat", whileUp(&up, 100*time.Millisecond, dest))
		for i := range 300 {
			w.bus.publish(w.delivery("chat", fmt.Sprint("app", i)))
		}
		_, stop := w.run()
		wait(10 * time.Minute)
		up.Store(true)
		for dest.count() < 8 {
			wait(100 * time.Millisecond)
		}
		up.Store(false)
		before, recalls := len(w.bus.parkings()), w.bus.recalled()
		wait(time.Minute)
		stop()
		if recalls < 60 {
			t.Errorf("%d were recalled when it came back", recalls)
		}
		tried := 0
		for _, p := range w.bus.parkings()[before:] {
			if p.d.Attempts > 0 {
				tried++
			}
		}
		if writes := len(w.bus.parkings()) - before; writes != tried {
			t.Errorf("%d writes, %d of them after an attempt", writes, tried)
		}
	})
}

// TestAShardThatIsGivenUpCountsForNothing fails when drain leaves the shard's deliveries in its namespace's share: if the same process
// took the shard over again, they would count twice.
func TestAShardThatIsGivenUpCountsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.quota = 40
		for i := range 30 {
			w.bus.publish(w.unbound("missing", fmt.Sprint("app", i)))
		}
		s := w.bus.session()
		d := w.deliverer(s)
		d.shares.use("team-a", 1) // another shard has deliveries of the namespace
		for range 3 {
			ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
			if err := d.Run(ctx); err != nil {
				t.Error(err)
			}
			stop()
		}
		if n := len(w.bus.deadLetters()); n != 0 {
			t.Errorf("%d of 30 were given up, the quota is 40", n)
		}
	})
}

// TestABacklogGoesAtThePaceOfTheDestination fails when a queue whose pace is not known gets slots on the schedule.
func TestABacklogGoesAtThePaceOfTheDestination(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		var up atomic.Bool
		w.destination("chat", whileUp(&up, 8*time.Millisecond, dest))
		for i := range 2000 {
			w.bus.publish(w.delivery("chat", fmt.Sprint("app", i%500)))
		}
		_, stop := w.run()
		wait(10 * time.Minute)
		up.Store(true)
		for dest.count() == 0 {
			wait(100 * time.Millisecond)
		}
		wait(10 * time.Second)
		if n := dest.count(); n < 1990 { // all but the few that were tried before, which wait for their retry
			t.Errorf("%d of 2000 in 10 s, the destination takes 1000/s", n)
		}
		wait(2 * time.Minute)
		stop()
		if n := dest.count(); n != 2000 || !w.bus.empty() {
			t.Errorf("%d were sent in the end", n)
		}
	})
}

// TestDeliveriesEndWithWhatTheyAreFor is about deliveries that wait for a Provider that cannot be used. Fails when sweep ignores the
// Alert, the Provider, or the deliveries that were on the schedule at takeover.
func TestDeliveriesEndWithWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		remove func(w *world)
		left   int
	}{
		"the Alert is deleted":     {func(w *world) { w.alerts.Delete("team-a/alert") }, 0},
		"the Alert is made anew":   {func(w *world) { w.alert("team-a", "alert", "uid-2", "chat") }, 0},
		"the Provider is deleted":  {func(w *world) { w.destinations.Delete("team-a", "chat") }, 0},
		"the namespace is deleted": {func(w *world) { w.alerts.Delete("team-a/alert"); w.destinations.Delete("team-a", "chat") }, 0},
		"nothing is deleted":       {func(*world) {}, 300},
		"the Provider is deleted and made anew": {func(w *world) {
			w.destinations.Delete("team-a", "chat")
			time.AfterFunc(20*time.Second, func() {
				w.destinations.Put("team-a", "chat", &Destination{UID: "p-2", Type: "generic", NotReady: "Secret not found"})
			})
		}, 300},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", restart ", restart), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.destinations.Put("team-a", "chat", &Destination{UID: "p-chat", Type: "generic", NotReady: "Secret not found"})
					for i := range 300 {
						w.bus.publish(w.delivery("chat", fmt.Sprint("app", i)))
					}
					_, stop := w.run()
					wait(2 * time.Minute)
					tc.remove(w)
					if restart {
						stop()
						_, stop = w.run()
					}
					wait(4 * time.Minute)
					stop()
					if n := w.bus.left(); n != tc.left {
						t.Errorf("%d wait, want %d", n, tc.left)
					}
					for _, l := range w.bus.deadLetters() {
						if l.label != labelOwnerGone {
							t.Fatalf("%s: %s", l.label, l.reason)
						}
					}
				})
			})
		}
	}
}

// TestE9ForgedEventsWaitBehindGenuineOnesAndInAShareOfTheirOwn fails when compareItems ignores the rank of unknown events, or when
// enforceShare does not bound them.
func TestE9ForgedEventsWaitBehindGenuineOnesAndInAShareOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.quota = 400
		w.destination("slow", sendFunc(func(ctx context.Context, n provider.Notification) error {
			pass(8 * time.Second) // eight at a time: one a second
			return dest.Send(ctx, n)
		}))
		_, stop := w.run()
		for i := range 300 {
			d := w.delivery("slow", fmt.Sprint("forged", i))
			d.Known = false
			w.bus.publish(d)
		}
		wait(time.Second)
		genuine := w.delivery("slow", "app")
		w.bus.publish(genuine)
		wait(20 * time.Second)
		found := false
		for _, id := range dest.ids() {
			found = found || id == genuine.ID
		}
		if !found {
			t.Errorf("the genuine event waits behind forged ones, %d of which were sent", dest.count())
		}
		dead := w.bus.deadLetters()
		if most := 400 / unknownShare; len(dead) < 300-most-2*maxConcurrent {
			t.Errorf("%d of 300 forged events were given up, at most %d may wait", len(dead), most)
		}
		if most := 400 / unknownShare; len(dead) > 300-most {
			t.Errorf("%d of 300 forged events were given up, %d may wait", len(dead), most)
		}
		for _, l := range dead {
			if l.label != labelUnverified {
				t.Errorf("%s ended as %s", l.d.ID, l.label)
			}
		}
		stop()
	})
}

// TestTheBreakerClosesOnARefusal: even a refusal is an answer, so the destination is up. Fails when attempted leaves the breaker open on
// a permanent failure.
func TestTheBreakerClosesOnARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		var up atomic.Bool
		w.destination("chat", sendFunc(func(ctx context.Context, n provider.Notification) error {
			switch {
			case !up.Load():
				return event.NewError(event.Retry, provider.LabelConnect, "no connection", nil)
			case strings.HasPrefix(n.Event.InvolvedObject.Name, "refused"):
				return failure(event.Permanent, provider.LabelClient)
			}
			return dest.Send(ctx, n)
		}))
		_, stop := w.run()
		for i := range 20 {
			w.bus.publish(w.delivery("chat", fmt.Sprint("refused", i)))
		}
		wait(time.Minute)
		if open := gauge(t, w, "notifier_breakers_open"); open != 1 {
			t.Fatalf("%v breakers are open", open)
		}
		up.Store(true)
		wait(time.Minute)
		if open := gauge(t, w, "notifier_breakers_open"); open != 0 {
			t.Errorf("%v breakers are open though the destination answers", open)
		}
		w.bus.publish(w.delivery("chat", "fine"))
		wait(time.Second)
		stop()
		if dest.count() != 1 {
			t.Errorf("%d sent", dest.count())
		}
	})
}
