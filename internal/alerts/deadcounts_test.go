package alerts

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
	"notifier/internal/event/view"
)

// refusingWorld is a world whose destination refuses every delivery.
func refusingWorld(t *testing.T) *world {
	w := newWorld(t)
	w.destination("chat", sendFunc(func(context.Context, provider.Notification) error {
		return failure(event.Permanent, provider.LabelClient)
	}))
	return w
}

// The bus drops the oldest dead letters by itself. Fails when they are counted for ever.
func TestDeadLettersThatTheBusDropsAreNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := refusingWorld(t)
		_, stop := w.run()
		for range 5 {
			w.bus.publish(w.delivery("chat", "app"))
		}
		wait(time.Minute)
		w.bus.drop(3)
		wait(5 * time.Minute)
		w.deadAre("when the bus had dropped three", 2)
		stop()
	})
}

// recounted is the time from one count of the dead letters on the bus to the next, and shown when a change is in the ledger for sure.
const (
	recounted = sweepEvery * tickEvery
	shown     = newsGap + time.Second
)

// deadAre compares the counts of dead letters of Provider chat and its Alert.
func (w *world) deadAre(when string, want int) {
	w.t.Helper()
	for _, key := range [][2]string{{kindProvider, "chat"}, {kindAlert, "alert"}} {
		if got := w.notes.ledger.Get(key[0], "team-a", key[1]); !got.Counted || got.Dead != want {
			w.t.Errorf("%s, %s: %d dead, want %d (counted %t)", when, key[1], got.Dead, want, got.Counted)
		}
	}
}

// Dead letters are written, and later removed, while those of the Provider are counted anew: the bus has the change, and the shard has no
// answer yet. Fails when a change is counted twice, or when the count is not made up for soon.
func TestDeadLettersThatChangeWhileTheyAreCountedCountOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := refusingWorld(t)
		_, stop := w.run()
		defer stop()
		// The change is made in the last ticks before a count, and answered after it.
		change := func(by func()) {
			w.bus.slow(2*tickEvery, "deadletter", "replay")
			wait(recounted - 3*tickEvery/2)
			by()
			wait(3 * tickEvery / 2)
			w.bus.slow(0)
		}
		die := func(n int) {
			for i := range n {
				w.bus.publish(w.delivery("chat", fmt.Sprint("app", i)))
			}
		}
		change(func() { die(5) })
		wait(tickEvery + shown)
		w.deadAre("when they were written", 5)
		wait(recounted - tickEvery - shown)

		change(func() { die(1) })
		w.bus.drop(5)
		wait(2*tickEvery + shown)
		w.deadAre("when the bus had dropped five", 1)
		wait(recounted - 2*tickEvery - shown)

		change(func() {
			w.destinations.Put("team-a", "chat", &Destination{UID: "p-chat", Type: "generic", Version: "mended", Sender: &sink{}})
		})
		wait(tickEvery + shown)
		w.deadAre("when the last was replayed", 0)
	})
}

// Fails when a count of the bus takes back the dead letters that were written after it and before its answer.
func TestACountOfDeadLettersThatIsLateTakesNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := refusingWorld(t)
		_, stop := w.run()
		defer stop()
		w.bus.publish(w.delivery("chat", "app"))
		wait(recounted - time.Second)
		w.bus.slow(tickEvery/2, "deadproviders")
		wait(2 * time.Second)
		w.bus.publish(w.delivery("chat", "app"))
		wait(shown)
		w.deadAre("after the answer", 2)
	})
}

// Fails when a dead test message, which belongs to no Alert, makes the dead letters of its Provider's Alerts unknown again and again.
func TestADeadTestMessageLeavesTheCountsOfAlertsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := refusingWorld(t)
		d, _, stop := w.start()
		w.bus.publish(w.delivery("chat", "app"))
		if _, err := d.Test(t.Context(), "team-a", view.TestRequest{Provider: "chat", Value: "one"}); err != nil {
			t.Fatal(err)
		}
		wait(time.Minute / 2)
		for range 180 {
			wait(time.Second)
			p, a := w.notes.ledger.Get(kindProvider, "team-a", "chat"), w.notes.ledger.Get(kindAlert, "team-a", "alert")
			if p.Dead != 2 || a.Dead != 1 || !a.Counted {
				t.Fatalf("dead of the Provider %d, of the Alert %d (counted %t)", p.Dead, a.Dead, a.Counted)
			}
		}
		stop()
		w.notes = newNotes(w.alerts, w.destinations)
		_, _, stop = w.start()
		wait(time.Minute / 2)
		if p, a := w.notes.ledger.Get(kindProvider, "team-a", "chat"), w.notes.ledger.Get(kindAlert, "team-a", "alert"); p.Dead != 2 || a.Dead != 1 || !a.Counted {
			t.Errorf("after a restart: dead of the Provider %d, of the Alert %d (counted %t)", p.Dead, a.Dead, a.Counted)
		}
		stop()
	})
}

// Two replays can remove one dead letter. Fails when the second is counted: it would show a dead letter where there is none.
func TestADeadLetterThatIsRemovedTwiceCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := newShard(w.deliverer(w.bus.session()), 0)
		one, other := w.delivery("chat", "app"), w.delivery("quiet", "app")
		s.dead.add(event.ProviderKey{Namespace: one.Namespace, Provider: one.Provider}, one.Alert, 1)
		s.dead.add(event.ProviderKey{Namespace: other.Namespace, Provider: other.Provider}, other.Alert, 1)
		s.dead.add(event.ProviderKey{Namespace: one.Namespace, Provider: one.Provider}, one.Alert, -1)
		s.dead.add(event.ProviderKey{Namespace: one.Namespace, Provider: one.Provider}, one.Alert, -1)
		w.notes.ledger.publish(time.Now())
		for key, want := range map[[2]string]int{{kindProvider, "chat"}: 0, {kindProvider, "quiet"}: 1, {kindAlert, "alert"}: 1} {
			if got := w.notes.ledger.Get(key[0], "team-a", key[1]); got.Dead != want {
				t.Errorf("%s %s: %d dead, want %d", key[0], key[1], got.Dead, want)
			}
		}
		if len(s.dead.of) != 1 {
			t.Errorf("%d Providers have dead letters", len(s.dead.of))
		}
	})
}

// T6: at a start the dead letters of each Provider are read to learn their Alerts. Fails when a namespace with very many, in very many
// Providers, keeps the numbers of another one's Alerts unknown, or when a Provider whose letters take long to read is never done.
func TestT6TheDeadLettersOfANamespaceKeepNoOthersCountsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := refusingWorld(t)
		die := func(d event.Delivery) {
			w.bus.nextSeq++
			w.bus.dead = append(w.bus.dead, &deadLetter{d, labelExpired, "", time.Now(), w.bus.nextSeq})
		}
		many := func(d event.Delivery, i int) event.Delivery {
			d.Namespace, d.Provider = "many", fmt.Sprint("chat-", i)
			return d
		}
		for i := range 1000 {
			die(many(w.delivery("chat", "app"), i))
			die(many(w.delivery("chat", "app"), i))
		}
		die(w.delivery("chat", "app"))
		w.bus.slow(tickEvery/2, "deadletters")
		_, stop := w.run()
		defer stop()
		w.alert("many", "alert", "uid-2", "chat-0")
		wait(2 * time.Minute)
		w.deadAre("two minutes after the start", 1)
		wait(time.Hour)
		if got := w.notes.ledger.Get(kindAlert, "many", "alert"); got.Dead < 200 {
			t.Errorf("%d dead letters of the Alert with many are counted in an hour", got.Dead)
		}
	})
}
