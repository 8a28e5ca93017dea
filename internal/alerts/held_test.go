package alerts

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
)

// T6: twenty destinations do not answer. Fails without a bound on the deliveries in memory of all queues of a shard together, or when
// that bound is kept at the cost of the queue that has few.
func TestT6TheDeliveriesOfAllQueuesInMemoryAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, quick := newWorld(t), &sink{}
		w.destination("quick", quick)
		for i := range 20 {
			name := fmt.Sprint("slow", i)
			w.destination(name, sendFunc(func(ctx context.Context, _ provider.Notification) error {
				<-ctx.Done()
				return ctx.Err()
			}))
			for j := range unknownDepth {
				w.bus.publish(w.delivery(name, fmt.Sprint("app", j)))
			}
		}
		_, stop := w.run()
		wait(10 * time.Second)
		const leaving = 100 // may be on their way out
		if n := depthIn(t, w, "memory"); n > maxHeld+leaving || n < maxHeld/2 {
			t.Errorf("%v deliveries are in memory, want about %d", n, maxHeld)
		}
		w.bus.publish(w.delivery("quick", "app"))
		wait(time.Second)
		if quick.count() != 1 {
			t.Error("a delivery to a quick destination waits for the slow ones")
		}
		stop()
	})
}
