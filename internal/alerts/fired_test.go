package alerts

import (
	"context"
	"math/rand/v2"
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
