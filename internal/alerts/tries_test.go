package alerts

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// Fails when an attempt is not recorded (Failed or Succeeded is not called), when its duration or the time of the next one is not
// recorded, or when the cause of an error is.
func TestEachAttemptIsNotedInTheDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		tries := 0
		w.destination("chat", sendFunc(func(context.Context, provider.Notification) error {
			pass(30 * time.Millisecond)
			tries++
			if tries > 2 {
				return nil
			}
			e := event.AsError(failure(event.Retry, provider.LabelServer))
			e.Status = 503
			return e
		}))
		began := time.Now()
		w.bus.publish(w.delivery("chat", "app"))
		_, stop := w.run()
		wait(time.Minute)
		stop()
		if len(w.bus.sent) != 1 {
			t.Fatalf("sent %+v", w.bus.sent)
		}
		d := w.bus.sent[0]
		if len(d.Tries) != 3 || d.Attempts != 3 || d.Took != 30*time.Millisecond {
			t.Fatalf("%d attempts, took %v: %+v", d.Attempts, d.Took, d.Tries)
		}
		for i, a := range d.Tries[:2] {
			if a.Class != provider.LabelServer || a.Status != 503 || a.Failure != "the destination said no" || a.Millis != 30 ||
				!a.Next.After(a.Time.Add(time.Second)) || d.Tries[i+1].Time.Before(a.Next) {
				t.Errorf("attempt %d: %+v", i, a)
			}
		}
		if last := d.Tries[2]; !d.Tries[0].Time.Equal(began) || last.Class != event.ClassSent || !last.Next.IsZero() {
			t.Errorf("first %+v, last %+v", d.Tries[0], last)
		}
		b, err := json.Marshal(d)
		if err != nil || strings.Contains(string(b), "SECRET") {
			t.Errorf("%v, a secret in %s", err, b)
		}
	})
}

// Fails when the last attempt of a delivery that is given up is not recorded, or is recorded as having a successor.
func TestADeadLetterHasTheAttemptThatEndedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.destination("chat", sendFunc(func(context.Context, provider.Notification) error {
			return failure(event.Permanent, provider.LabelClient)
		}))
		w.bus.publish(w.delivery("chat", "app"))
		_, stop := w.run()
		wait(time.Minute)
		stop()
		dead := w.bus.deadLetters()
		if len(dead) != 1 || len(dead[0].d.Tries) != 1 || dead[0].d.Tries[0].Class != provider.LabelClient || !dead[0].d.Tries[0].Next.IsZero() {
			t.Errorf("dead letters %+v", dead)
		}
	})
}

// Fails when a delivery that is tried for a day grows with each attempt.
func TestTheAttemptsOfADayAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.destination("chat", sendFunc(func(context.Context, provider.Notification) error {
			return failure(event.Retry, provider.LabelServer)
		}))
		w.bus.publish(w.delivery("chat", "app"))
		_, stop := w.run()
		wait(25 * time.Hour)
		stop()
		dead := w.bus.deadLetters()
		if len(dead) != 1 || len(dead[0].d.Tries) != event.MaxTries || dead[0].d.Attempts <= event.MaxTries {
			t.Fatalf("dead letters %+v", dead)
		}
		tries := dead[0].d.Tries
		if first, last := tries[0].Time, tries[event.MaxTries-1].Time; last.Sub(first) < 23*time.Hour {
			t.Errorf("from %v to %v", first, last)
		}
	})
}
