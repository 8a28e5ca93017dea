package alerts

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

func failure(class event.Class, label string) error {
	return event.NewError(class, label, "the destination said no", errors.New("https://hooks.example/SECRET refused"))
}

// Fails when store acknowledges the message before the history is written (drop the case record).
func TestAnAcceptedNotificationIsRecordedAsSentAndLeavesTheBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.destination("chat", dest)
		w.bus.publish(w.delivery("chat", "app"))
		_, stop := w.run()
		wait(time.Second)
		stop()
		if diff := cmp.Diff([]string{"d1"}, dest.ids()); diff != "" {
			t.Error(diff)
		}
		if w.bus.history["d1"] != 1 || !w.bus.empty() {
			t.Errorf("history %v, empty %v", w.bus.history, w.bus.empty())
		}
	})
}

// TestPermanentFailureIsADeadLetterAtOnce is one half of E2. Fails when judge reschedules permanent failures.
func TestPermanentFailureIsADeadLetterAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.destination("chat", sendFunc(func(context.Context, provider.Notification) error {
			return failure(event.Permanent, provider.LabelClient)
		}))
		w.bus.publish(w.delivery("chat", "app"))
		_, stop := w.run()
		wait(10 * time.Second)
		stop()
		dead := w.bus.deadLetters()
		if len(dead) != 1 || dead[0].label != "http_4xx" || !w.bus.empty() {
			t.Fatalf("dead letters %+v, empty %v", dead, w.bus.empty())
		}
		told := w.notes.standings("Provider/team-a/chat")
		if n := len(told); n == 0 || told[n-1].Health.Reason != ReasonFailed || told[n-1].UID != "p-chat" {
			t.Errorf("told %+v", told)
		}
		want := []string{
			"Alert/team-a/alert NotificationDispatchFailed notification about kustomization/app.team-a to Provider chat: the destination said no",
			"Provider/team-a/chat DeliveryGivenUp notification about kustomization/app.team-a for Alert alert was given up: the destination said no",
		}
		if diff := cmp.Diff(want, w.notes.recorded()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestRetriesFollowTheScheduleForADay fails when retryGap does not grow, grows too soon, or expiry is ignored.
func TestRetriesFollowTheScheduleForADay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var tries []time.Time
		w.destination("chat", sendFunc(func(context.Context, provider.Notification) error {
			tries = append(tries, time.Now())
			return failure(event.Retry, provider.LabelServer)
		}))
		w.bus.publish(w.delivery("chat", "app"))
		_, stop := w.run()
		wait(25 * time.Hour)
		stop()
		if gap := tries[1].Sub(tries[0]); gap > 5*time.Second {
			t.Errorf("first retry after %v", gap)
		}
		for i := 1; i < len(tries); i++ {
			age, gap := tries[i-1].Sub(tries[0]), tries[i].Sub(tries[i-1])
			// The schedule rounds up to a second at most; the breaker's pause stays below the gap.
			if limit := time.Minute + time.Second; age < time.Hour-time.Minute && gap > limit {
				t.Errorf("gap of %v at %v", gap, age)
			}
			if gap > 11*time.Minute {
				t.Errorf("gap of %v at %v", gap, age)
			}
		}
		dead := w.bus.deadLetters()
		if len(dead) != 1 || dead[0].label != labelExpired || !w.bus.empty() {
			t.Fatalf("dead letters %+v", dead)
		}
		if last := tries[len(tries)-1].Sub(tries[0]); last < DefaultMaxAge-time.Minute || last > DefaultMaxAge+time.Minute {
			t.Errorf("last attempt at %v", last)
		}
		if n := len(tries); n < 150 || n > 400 {
			t.Errorf("%d attempts in a day", n)
		}
	})
}

// TestDeliveryIDIsTheSameAtEveryAttempt is E3. Fails when send makes a new ID.
func TestDeliveryIDIsTheSameAtEveryAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var ids []string
		w.destination("chat", sendFunc(func(_ context.Context, n provider.Notification) error {
			if ids = append(ids, n.DeliveryID); len(ids) < 4 {
				return failure(event.Retry, provider.LabelTimeout)
			}
			return nil
		}))
		w.bus.publish(w.delivery("chat", "app"))
		_, stop := w.run()
		wait(time.Minute)
		stop()
		if diff := cmp.Diff([]string{"d1", "d1", "d1", "d1"}, ids); diff != "" {
			t.Error(diff)
		}
	})
}

// TestADeliveryThatMayHaveBeenSentIsLookedUpFirst is E3. Fails when try skips the history, for any of the three signs.
func TestADeliveryThatMayHaveBeenSentIsLookedUpFirst(t *testing.T) {
	for name, mark := range map[string]func(*event.Delivery){
		"handed out again":   func(d *event.Delivery) { d.Recheck = true },
		"tried before":       func(d *event.Delivery) { d.Attempts = 1; d.FirstAttempt = time.Now() },
		"on schedule before": func(d *event.Delivery) { d.Reschedules = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, dest := newWorld(t), &sink{}
				w.destination("chat", dest)
				_, stop := w.run()
				d := w.delivery("chat", "app")
				mark(&d)
				w.bus.history[d.ID] = 1
				w.bus.publish(d)
				wait(time.Second)
				stop()
				if dest.count() != 0 || !w.bus.empty() {
					t.Errorf("sent %v, empty %v", dest.ids(), w.bus.empty())
				}
			})
		})
	}
}

// Fails when a delivery of an Alert that has a successor is kept for as long as an informer may lag.
func TestADeliveryWhoseAlertHasASuccessorEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.destination("chat", &sink{})
		d := w.delivery("chat", "app")
		w.alerts.Put(Inert(AlertSpec{Namespace: "team-a", Name: "alert", UID: "uid-2", Created: d.Routed.Add(time.Second)}))
		w.bus.publish(d)
		_, stop := w.run()
		wait(lookAgain)
		stop()
		if dead := w.bus.deadLetters(); len(dead) != 1 || dead[0].label != labelOwnerGone {
			t.Errorf("dead letters %+v", dead)
		}
	})
}

// Fails when owned ignores the UID, or does not wait for an informer that lags.
func TestADeliveryWhoseAlertIsGoneNeverReachesItsSuccessor(t *testing.T) {
	for name, tc := range map[string]struct {
		live func(w *world)
		sent int
		dead string
	}{
		"an Alert that was made anew gets nothing of the old one": {
			live: func(w *world) { w.alert("team-a", "alert", "uid-2", "chat") }, dead: labelOwnerGone,
		},
		"an Alert that is gone takes its deliveries along": {
			live: func(w *world) { w.alerts.Delete("team-a/alert") }, dead: labelOwnerGone,
		},
		"an Alert that becomes known within the grace is served": {
			live: func(w *world) {
				w.alerts.Delete("team-a/alert")
				time.AfterFunc(20*time.Second, func() { w.alert("team-a", "alert", "uid-1", "chat") })
			},
			sent: 1,
		},
		"an Alert whose spec is broken keeps what was routed": {
			live: func(w *world) {
				w.alerts.Put(Inert(AlertSpec{Namespace: "team-a", Name: "alert", UID: "uid-1"}))
			},
			sent: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, dest := newWorld(t), &sink{}
				w.destination("chat", dest)
				tc.live(w)
				w.bus.publish(w.delivery("chat", "app"))
				_, stop := w.run()
				wait(2 * time.Minute)
				stop()
				if dest.count() != tc.sent || !w.bus.empty() {
					t.Errorf("sent %v, empty %v", dest.ids(), w.bus.empty())
				}
				if dead := w.bus.deadLetters(); tc.dead != "" && (len(dead) != 1 || dead[0].label != tc.dead) {
					t.Errorf("dead letters %+v", dead)
				}
			})
		})
	}
}

// TestAMissingProviderIsWaitedFor is E2. Fails when destination gives up deliveries without a Provider.
func TestAMissingProviderIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		for range 30 {
			w.bus.publish(w.unbound("chat", "app"))
		}
		_, stop := w.run()
		wait(30 * time.Minute)
		if told := w.notes.recorded(); len(told) == 0 || !strings.Contains(told[0], ReasonProviderNotFound) {
			t.Errorf("the Alert is told %v", told)
		}
		w.destinations.Put("team-a", "chat", &Destination{UID: "p-chat", Type: "generic", NotReady: "Secret not found"})
		wait(30 * time.Minute)
		w.destination("chat", dest)
		wait(11 * time.Minute)
		stop()
		if n := dest.count(); n != 30 || !w.bus.empty() || len(w.bus.deadLetters()) != 0 {
			t.Errorf("%d sent, empty %v, dead %v", n, w.bus.empty(), w.bus.deadLetters())
		}
		for i, id := range dest.ids() {
			if want := "d" + itoa(i+1); id != want {
				t.Fatalf("place %d has %s", i, id)
			}
		}
	})
}

// Fails when putBack and expireIn ignore expiry.
func TestADeliveryWithoutAProviderExpiresAfterADay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 20 {
			w.bus.publish(w.unbound("chat", "app"+itoa(i)))
		}
		_, stop := w.run()
		wait(23 * time.Hour)
		if n := len(w.bus.deadLetters()); n != 0 {
			t.Errorf("%d dead letters too early", n)
		}
		wait(2 * time.Hour)
		stop()
		dead := w.bus.deadLetters()
		if len(dead) != 20 || !w.bus.empty() {
			t.Fatalf("%d dead letters, empty %v", len(dead), w.bus.empty())
		}
		for _, l := range dead {
			if l.label != labelExpired || !strings.Contains(l.reason, ReasonProviderNotFound) {
				t.Errorf("%s: %s", l.label, l.reason)
			}
		}
	})
}

// Fails when putBack puts back expired deliveries.
func TestManyThatExpiredEndSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 500 {
			d := w.delivery("chat", "app"+itoa(i))
			d.Routed = time.Now().Add(-DefaultMaxAge)
			w.bus.publish(d)
		}
		_, stop := w.run()
		wait(time.Minute)
		stop()
		if n := len(w.bus.deadLetters()); n != 500 || !w.bus.empty() {
			t.Errorf("%d dead letters", n)
		}
	})
}

// Fails when judge ignores expiry, Class, or maxPanics.
func TestAFailedAttemptIsJudged(t *testing.T) {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	retry := event.NewError(event.Retry, provider.LabelServer, "down", nil)
	for name, tc := range map[string]struct {
		d       event.Delivery
		failure *event.Error
		action  action
		label   string
	}{
		"the first failure":           {event.Delivery{FirstAttempt: now}, retry, reschedule, provider.LabelServer},
		"a failure after a long time": {event.Delivery{Attempts: 99, FirstAttempt: now.Add(1 - DefaultMaxAge)}, retry, reschedule, provider.LabelServer},
		"a failure after a day":       {event.Delivery{Attempts: 99, FirstAttempt: now.Add(-DefaultMaxAge)}, retry, toDeadLetters, labelExpired},
		"a refusal": {
			event.Delivery{}, event.NewError(event.Permanent, provider.LabelClient, "no", nil), toDeadLetters, provider.LabelClient,
		},
		"the second panic": {
			event.Delivery{Attempts: 1, FirstAttempt: now}, event.NewError(event.Retry, labelPanic, "bug", errPanic), reschedule, labelPanic,
		},
		"the third panic": {
			event.Delivery{Attempts: 2, FirstAttempt: now}, event.NewError(event.Retry, labelPanic, "bug", errPanic), toDeadLetters, labelPanic,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &shard{Deliverer: &Deliverer{DelivererOptions: DelivererOptions{Recorder: &notes{}, MaxAge: DefaultMaxAge}}}
			d := tc.d
			v := s.judge(&d, tc.failure, now)
			if v.action != tc.action || v.label != tc.label || d.Attempts != tc.d.Attempts+1 {
				t.Errorf("got %+v after %d attempts", v, d.Attempts)
			}
		})
	}
}

// Fails when destination ignores Suspended.
func TestASuspendedProvidersDeliveriesAreDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.destinations.Put("team-a", "chat", &Destination{Type: "generic", Sender: dest, Suspended: true})
		w.bus.publish(w.delivery("chat", "app"), w.delivery("chat", "app"))
		_, stop := w.run()
		wait(time.Second)
		stop()
		dead := w.bus.deadLetters()
		if len(dead) != 2 || dead[0].label != labelSuspended || dest.count() != 0 || !w.bus.empty() {
			t.Errorf("dead letters %+v, sent %v", dead, dest.ids())
		}
	})
}
