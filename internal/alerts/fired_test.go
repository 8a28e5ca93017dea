package alerts

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// E2: a delivery is put on the schedule again at the moment at which its earlier message there is handed out. The server had read that already,
// and removes the newer one in its stead. Fails when the earlier one is acknowledged as if the newer one waited on the schedule: nothing is
// left of the delivery then.
func TestE2ADeliveryRescheduledAsItsTimeComesIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.bus.rough = &rough{rng: rand.New(rand.NewPCG(1, 1)), lag: time.Second, loses: 100}
		w.bus.slow(100*time.Millisecond, "reschedule")
		refuses := func(context.Context, provider.Notification) error {
			return failure(event.Retry, provider.LabelServer)
		}
		w.version("chat", "1", sendFunc(refuses))
		_, stop := w.run()
		w.bus.publish(w.delivery("chat", "app"))
		wait(time.Millisecond)
		retry := w.bus.parkings()[0].at
		w.version("chat", "2", sendFunc(func(ctx context.Context, n provider.Notification) error {
			if len(w.bus.parkings()) > 1 {
				return dest.Send(ctx, n)
			}
			pass(time.Until(retry) + time.Millisecond) // it was recalled
			return refuses(ctx, n)
		}))
		wait(time.Hour)
		stop()
		if got := dest.ids(); len(got) != 1 || !w.bus.empty() {
			t.Errorf("sent %v, %d messages are left", got, w.bus.left())
		}
	})
}

// E2: a copy of a delivery is on the schedule that a worker left there when it died, just after the delivery had become a dead letter. Its
// Provider is mended, and the replay of the letter is put on the schedule as the time of that copy comes: the server removes the replay in its
// stead. Fails when the copy is acknowledged as one of the run that has ended.
func TestE2AReplayRescheduledAsTheTimeOfAnEarlierRunComesIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.bus.rough = &rough{rng: rand.New(rand.NewPCG(1, 1)), lag: time.Second, loses: 100}
		w.version("chat", "1", sendFunc(func(context.Context, provider.Notification) error {
			return failure(event.Permanent, provider.LabelClient)
		}))
		_, stop := w.run()
		left := w.delivery("chat", "app")
		w.bus.publish(left)
		wait(time.Minute)
		left.Reschedules, left.Recheck = 1, true
		w.bus.mu.Lock()
		w.bus.add(left, time.Now())
		w.bus.mu.Unlock()
		limited := false
		w.version("chat", "2", sendFunc(func(ctx context.Context, n provider.Notification) error {
			if n.DeliveryID == left.ID && !limited {
				limited = true
				return failure(event.Retry, provider.LabelServer)
			}
			return dest.Send(ctx, n)
		}))
		w.bus.publish(w.delivery("chat", "other")) // so that the queue looks at its Provider
		wait(2 * time.Hour)
		stop()
		if got := dest.ids(); !slices.Contains(got, left.ID) || !w.bus.empty() || len(w.bus.deadLetters()) > 0 {
			t.Errorf("sent %v, %d messages are left, %d are dead", got, w.bus.left(), len(w.bus.deadLetters()))
		}
	})
}

// E3: a retry is read off the schedule early, as its Provider was edited, and the answer comes after the retry was handed out, tried and put
// there once more. Fails when the older copy is tried as well: a limit is then not kept, and what becomes of that copy is not what becomes of
// the newer one, which stays on the schedule and is sent although the delivery is a dead letter.
func TestE3ARetryThatWasReadBeforeItsTimeIsNotTriedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.version("chat", "1", sendFunc(func(context.Context, provider.Notification) error {
			return failure(event.Retry, provider.LabelServer)
		}))
		_, stop := w.run()
		w.bus.publish(w.delivery("chat", "app"))
		wait(time.Millisecond)
		retry := w.bus.parkings()[0].at
		wait(time.Until(retry) - earliestRetry - 200*time.Millisecond)
		w.bus.slow(busTimeout, "recall")
		var sends []time.Time
		w.version("chat", "2", sendFunc(func(_ context.Context, n provider.Notification) error {
			if n.DeliveryID != "d1" {
				return nil
			}
			switch sends = append(sends, time.Now()); len(sends) {
			case 1:
				return &event.Error{Class: event.Retry, Label: provider.LabelLimited, Reason: "HTTP 429", RetryAfter: time.Minute}
			case 2:
				return failure(event.Permanent, provider.LabelClient)
			}
			return nil
		}))
		w.bus.publish(w.delivery("chat", "other")) // so that the queue looks at its Provider
		wait(time.Hour)
		stop()
		if len(sends) != 2 || sends[1].Sub(sends[0]) < time.Minute || !w.bus.empty() || len(w.bus.deadLetters()) != 1 {
			t.Errorf("sent at %v, %d messages are left, %d are dead", sends, w.bus.left(), len(w.bus.deadLetters()))
		}
	})
}
