package alerts

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// TestADeliveryIsTriedForAsLongAsMaxAge fails when expiry uses another age, when a replayed delivery is as old as its event, or when the
// reason names another time.
func TestADeliveryIsTriedForAsLongAsMaxAge(t *testing.T) {
	for name, replayed := range map[string]bool{"of a new event": false, "that was replayed": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.maxAge = 5 * time.Minute
				w.destination("chat", sendFunc(func(context.Context, provider.Notification) error {
					return failure(event.Retry, provider.LabelServer)
				}))
				d := w.delivery("chat", "app")
				began := time.Now()
				if replayed {
					w.destination("chat", nil) // it is not ready, so there is no first attempt
					d.Routed, d.Replayed, d.Replays, d.Reschedules = began.Add(-time.Hour), began, 1, 1
				}
				w.bus.publish(d)
				// This delivery was never tried itself: it waits behind the first.
				behind := w.delivery("chat", "app")
				w.bus.publish(behind)
				_, stop := w.run()
				wait(4 * time.Minute)
				if n := len(w.bus.deadLetters()); n != 0 {
					t.Errorf("%d died too early", n)
				}
				wait(10 * time.Minute)
				stop()
				dead := w.bus.deadLetters()
				if len(dead) != 2 || !w.bus.empty() {
					t.Fatalf("%d died", len(dead))
				}
				for _, l := range dead {
					if l.label != labelExpired || !strings.Contains(l.reason, "within 5 minutes") {
						t.Errorf("%s: %s", l.label, l.reason)
					}
				}
			})
		})
	}
}

// TestDeliveriesToAFailingDestinationExpireOnTime fails when putBack leaves an untried delivery on the schedule beyond its lifetime.
func TestDeliveriesToAFailingDestinationExpireOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.maxAge = 15 * time.Second
		w.destination("chat", sendFunc(func(context.Context, provider.Notification) error {
			return failure(event.Retry, provider.LabelServer)
		}))
		_, stop := w.run()
		for i := range 100 {
			w.bus.publish(w.delivery("chat", "app"+itoa(i)))
		}
		wait(10 * time.Second)
		if n := len(w.bus.deadLetters()); n != 0 {
			t.Errorf("%d died too early", n)
		}
		wait(30 * time.Second) // the lifetime of a tried delivery begins with its first attempt
		stop()
		if n := len(w.bus.deadLetters()); n != 100 || !w.bus.empty() {
			t.Errorf("%d died", n)
		}
	})
}

// TestAnAgeIsShownInItsLargestWholeUnit fails when inWords rounds.
func TestAnAgeIsShownInItsLargestWholeUnit(t *testing.T) {
	for age, want := range map[time.Duration]string{
		24 * time.Hour: "24 hours", time.Hour: "1 hour", 90 * time.Minute: "90 minutes", 61 * time.Second: "61 seconds",
		1500 * time.Millisecond: "1.5s",
	} {
		if got := inWords(age); got != want {
			t.Errorf("%s: %s", age, got)
		}
	}
}

// A Provider is made again, and is not ready for a day. Fails when the deliveries that end meanwhile are reported on the former one.
func TestALossIsReportedOnTheProviderOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.destination("chat", sendFunc(func(context.Context, provider.Notification) error {
			return failure(event.Retry, provider.LabelServer)
		}))
		_, stop := w.run()
		w.bus.publish(w.delivery("chat", "app"))
		wait(time.Minute)
		w.destinations.Put("team-a", "chat", &Destination{UID: "p-again", Type: "generic", NotReady: "the Secret is missing"})
		wait(DefaultMaxAge + time.Hour/2)
		if s := w.notes.ledger.Get(kindProvider, "team-a", "chat"); s.UID != "p-again" || s.Loss.Count != 1 || len(w.bus.deadLetters()) != 1 {
			t.Errorf("%d dead letters, of the Provider %+v", len(w.bus.deadLetters()), s)
		}
		stop()
	})
}
