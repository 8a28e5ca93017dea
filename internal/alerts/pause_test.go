package alerts

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// Fails when retryAt ignores RetryAfter or does not clamp it, when the queue is not delayed, or when the period of a rate limit is cut to
// the maximum of other waits.
func TestRetryAfterHoldsBackTheQueueAndIsClamped(t *testing.T) {
	for name, tc := range map[string]struct {
		asked, period time.Duration
		from, to      time.Duration
	}{
		"a wait that was asked for is kept":      {90 * time.Second, 0, 90 * time.Second, 93 * time.Second},
		"an absurd wait is cut to the maximum":   {1000 * time.Hour, 0, maxRetryAfter, maxRetryAfter + 3*time.Second},
		"a negative wait is none":                {-time.Hour, -time.Hour, time.Second, 5 * time.Second},
		"the period of a rate limit is kept":     {40 * time.Minute, 40 * time.Minute, 40 * time.Minute, 40*time.Minute + 3*time.Second},
		"an absurd period is cut to the maximum": {1000 * time.Hour, 1000 * time.Hour, maxPeriod, maxPeriod + 3*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var mu sync.Mutex
				var tries []time.Time
				w.destination("chat", sendFunc(func(context.Context, provider.Notification) error {
					mu.Lock()
					defer mu.Unlock()
					tries = append(tries, time.Now())
					if len(tries) > 1 {
						return nil
					}
					e := event.NewError(event.Retry, provider.LabelLimited, "too many requests", nil)
					e.RetryAfter, e.Period = tc.asked, tc.period
					return e
				}))
				w.bus.publish(w.delivery("chat", "app"))
				_, stop := w.run()
				wait(500 * time.Millisecond)
				w.bus.publish(w.delivery("chat", "other"))
				wait(2 * time.Hour)
				stop()
				first := w.bus.parkings()[0]
				if tc.asked > 0 && first.at.Before(tries[0].Add(min(tc.from, maxRetryAfter))) {
					t.Errorf("put on the schedule for %v after the attempt", first.at.Sub(tries[0]))
				}
				if shown := first.d.Tries[0].Next; shown.Before(tries[0].Add(tc.from)) || shown.After(tries[0].Add(tc.to)) {
					t.Errorf("the next attempt is shown %v after the first", shown.Sub(tries[0]))
				}
				for _, key := range []string{"Provider/team-a/chat", "Alert/team-a/alert"} {
					s := w.notes.standings(key)
					if last := s[len(s)-1].NextTry; !last.Equal(first.d.Tries[0].Next) {
						t.Errorf("the status of %s shows %v as the next attempt, want %v", key, last, first.d.Tries[0].Next)
					}
				}
				if len(tries) != 3 {
					t.Fatalf("%d attempts", len(tries))
				}
				for _, at := range tries[1:] {
					if gap := at.Sub(tries[0]); tc.asked > 0 && gap < tc.from || gap > tc.to {
						t.Errorf("attempt after %v, want %v to %v", gap, tc.from, tc.to)
					}
				}
				if !w.bus.empty() {
					t.Error("something is left")
				}
			})
		})
	}
}

// Fails when a Provider that waits for the end of a rate limit's period does not send after its configuration changed, or when it sends
// within the period without a change.
func TestAChangeOfTheProviderEndsAWaitForARateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, mended := newWorld(t), &sink{}
		put := func(s Sender, version string) {
			w.destinations.Put("team-a", "chat", &Destination{UID: "p-chat", Type: "generic", Sender: s, Version: version})
		}
		put(sendFunc(func(context.Context, provider.Notification) error {
			e := event.NewError(event.Retry, provider.LabelLimited, "too many requests", nil)
			e.RetryAfter, e.Period = time.Hour, time.Hour
			return e
		}), "1")
		w.bus.publish(w.delivery("chat", "app"))
		_, stop := w.run()
		wait(time.Second)
		w.bus.publish(w.delivery("chat", "other"))
		put(mended, "1") // compiled again, unchanged
		wait(10 * time.Minute)
		if ids := mended.ids(); len(ids) != 0 {
			t.Errorf("sent within the period: %v", ids)
		}
		put(mended, "2")
		wait(tickEvery + time.Second)
		if ids := mended.ids(); len(ids) != 2 {
			t.Errorf("sent after the change: %v", ids)
		}
		stop()
	})
}

// A Provider is changed while a delivery to its former account is under way, which then asks for a wait. Fails when the wait holds up what is
// for the present one.
func TestAWaitForTheFormerConfigurationHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, mended := newWorld(t), &sink{}
		w.version("chat", "1", sendFunc(func(context.Context, provider.Notification) error {
			<-time.After(10 * time.Second)
			e := event.NewError(event.Retry, provider.LabelLimited, "too many requests", nil)
			e.RetryAfter, e.Period = time.Hour, time.Hour
			return e
		}))
		w.bus.publish(w.delivery("chat", "app"))
		_, stop := w.run()
		wait(time.Second)
		w.version("chat", "2", mended)
		w.bus.publish(w.delivery("chat", "other"))
		wait(20 * time.Second)
		w.bus.publish(w.delivery("chat", "third"))
		wait(time.Minute)
		if ids := mended.ids(); !slices.Equal(ids, []string{"d2", "d1", "d3"}) {
			t.Errorf("sent %v", ids)
		}
		stop()
	})
}
