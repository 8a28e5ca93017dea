package alerts

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// E2: the bus does not answer for a moment after a delivery has died at its second attempt, and its Provider is changed meanwhile. Fails when
// the removal of the delivery's former copies removes the retry of its replay.
func TestE2AReplayThatIsRetriedIsNoCopyOfTheDeliveryThatDied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		attempts, good := 0, &sink{}
		send := sendFunc(func(ctx context.Context, n provider.Notification) error {
			switch attempts++; attempts {
			case 1, 3:
				return failure(event.Retry, provider.LabelServer)
			case 2:
				return failure(event.Permanent, provider.LabelClient)
			}
			return good.Send(ctx, n)
		})
		w.version("chat", "1", send)
		w.bus.faults = func(op string) error { // its caller has the lock of the bus
			if copied := w.bus.scheduled["d1"]; op == "recall" && (copied == nil || copied.d.Replays == 0) {
				return errors.New("no answer")
			}
			return nil
		}
		_, stop := w.run()
		w.bus.publish(w.delivery("chat", "app"))
		wait(5 * time.Second)
		if n := len(w.bus.deadLetters()); n != 1 || attempts != 2 {
			t.Fatalf("%d dead letters after %d attempts", n, attempts)
		}
		w.version("chat", "2", send)
		wait(time.Hour)
		stop()
		if n := good.count(); n != 1 || len(w.bus.deadLetters()) != 0 {
			t.Errorf("after %d attempts %d are sent, %d dead letters, %d on the bus", attempts, n, len(w.bus.deadLetters()), w.bus.left())
		}
	})
}
