package alerts

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// E4 and E2: a Provider is mended while a delivery to its former address is under way, which that refuses. Fails when the delivery dies of
// it, so that it comes after its successors or never.
func TestE4ARefusalByTheFormerConfigurationIsNotFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.version("chat", "1", sendFunc(func(context.Context, provider.Notification) error {
			<-time.After(time.Second)
			return event.NewError(event.Permanent, provider.LabelClient, "HTTP 404", nil)
		}))
		_, stop := w.run()
		w.bus.publish(w.delivery("chat", "app"), w.delivery("chat", "app"))
		wait(time.Second / 2)
		w.version("chat", "2", dest)
		wait(time.Minute)
		stop()
		if got := dest.ids(); !slices.Equal(got, []string{"d1", "d2"}) || len(w.bus.deadLetters()) > 0 {
			t.Errorf("sent %v, %d are dead", got, len(w.bus.deadLetters()))
		}
	})
}

// FuzzE4AMendedProviderGetsAllInOrder is E4 and E2 for a Provider that is broken and mended again and again, with kills and drains: what died
// of it comes back at its place among the deliveries of its object.
//
// Fails when a refusal by the former configuration is final, when a delivery is sent while dead letters are listed, or when they are
// replayed in another order.
func FuzzE4AMendedProviderGetsAllInOrder(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { playMended(t, seed) })
	})
}

func playMended(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	w, m := newWorld(t), newMoody(t, seed)
	w.bus.rough = newRough(seed, false) // an object's letter that is listed too late comes after its successors
	put := func(version int, broken bool) {
		sends := m.sender(version)
		w.version("chat", fmt.Sprint(version), sendFunc(func(ctx context.Context, n provider.Notification) error {
			if !broken {
				return sends.Send(ctx, n)
			}
			<-time.After(m.took())
			return event.NewError(event.Permanent, provider.LabelClient, "HTTP 404", nil)
		}))
	}
	version, broken := 1, false
	put(version, broken)
	s, stop := w.run()
	for range 400 {
		pass(time.Duration(rng.IntN(1500)) * time.Millisecond)
		d := w.delivery("chat", fmt.Sprint("app", rng.IntN(6)))
		m.expect(d, rng.IntN(40) == 0)
		if rng.IntN(30) == 0 {
			version, broken = version+1, !broken
			put(version, broken)
		}
		w.bus.publish(d)
		consistent(t, s.dispatcher)
		if rng.IntN(60) == 0 {
			if rng.IntN(2) == 0 {
				s.kill()
			}
			stop()
			s, stop = w.run()
		}
	}
	m.cure()
	put(version+1, false)
	wait(time.Hour / 2)
	stop()
	if !w.bus.empty() || len(w.bus.deadLetters()) > 0 {
		t.Errorf("%d deliveries are left on the bus, %d are dead", w.bus.left(), len(w.bus.deadLetters()))
	}
	m.allInOrder()
}

// Fails when a failure of a former configuration cannot be told from one of the present: the status would report it after the correction.
func TestAFailureNamesTheConfigurationThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		refuses := sendFunc(func(context.Context, provider.Notification) error {
			return failure(event.Permanent, provider.LabelClient)
		})
		w.version("chat", "1", refuses)
		_, stop := w.run()
		for _, version := range []string{"1", "2"} {
			w.version("chat", version, refuses)
			w.bus.publish(w.delivery("chat", "app"))
			wait(time.Minute)
			told := w.notes.standings("Provider/team-a/chat")
			if h := told[len(told)-1].Health; h.Reason != ReasonFailed || h.Version != version {
				t.Errorf("version %s: %+v", version, h)
			}
		}
		stop()
	})
}

// E2: two appliers undo each other's edits of a Provider, so that each send ends with another version than it began with. Fails when its
// deliveries are tried for ever, so that no owner is ever shown a loss.
func TestE2ADeliveryEndsThoughItsProviderIsChangedDuringEverySend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, sends := newWorld(t), 0
		var hangs sendFunc
		hangs = func(context.Context, provider.Notification) error {
			<-time.After(15 * time.Second)
			sends++
			w.version("chat", fmt.Sprint(sends), hangs)
			return failure(event.Retry, provider.LabelTimeout)
		}
		w.version("chat", "0", hangs)
		_, stop := w.run()
		w.bus.publish(w.delivery("chat", "app"))
		wait(DefaultMaxAge - time.Minute)
		if told := w.notes.standings("Provider/team-a/chat"); told[len(told)-1].Failed > 0 {
			t.Errorf("given up too early: %+v", told[len(told)-1])
		}
		wait(2 * time.Minute)
		stop()
		told := w.notes.standings("Provider/team-a/chat") // the dead letter may be sent again, since the Provider was changed after it
		if is := told[len(told)-1]; is.Failed == 0 || is.LastFailure.Class != labelExpired {
			t.Errorf("after %d sends: %+v", sends, is)
		}
	})
}
