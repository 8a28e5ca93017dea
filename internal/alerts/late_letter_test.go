package alerts

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// E2: a destination refuses a delivery, and is mended while the bus does not take the dead letter. Fails when a letter that is written
// after the mending was noticed is not replayed.
func TestE2ALetterThatIsWrittenAfterTheMendingIsReplayed(t *testing.T) {
	for name, mend := range map[string]func(w *world, s Sender){
		"by a change of the Provider": func(w *world, s Sender) { w.version("chat", "2", s) },
		"at the destination":          func(w *world, _ Sender) { w.bus.publish(w.delivery("chat", "other")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, good := newWorld(t), &sink{}
				var mended, refused atomic.Int32
				dest := sendFunc(func(ctx context.Context, n provider.Notification) error {
					if mended.Load() == 0 {
						refused.Add(1)
						return failure(event.Permanent, provider.LabelClient)
					}
					return good.Send(ctx, n)
				})
				w.version("chat", "1", dest)
				until := time.Now().Add(30 * time.Second)
				w.bus.faults = func(op string) error {
					if op == "deadletter" && time.Now().Before(until) {
						return errors.New("no answer")
					}
					return nil
				}
				_, stop := w.run()
				w.bus.publish(w.delivery("chat", "app"))
				wait(time.Second)
				mended.Store(1)
				mend(w, dest)
				wait(10 * time.Minute)
				stop()
				if n := len(w.bus.deadLetters()); n != 0 || refused.Load() != 1 {
					t.Errorf("%d dead letters, sent %v", n, good.ids())
				}
			})
		})
	}
}
