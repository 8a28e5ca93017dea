package alerts

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// TestE5ABurstIsGivenUpOnlyWhereItIsNotTaken is E5 for a burst of events beyond a Provider's share, beside a Provider that fills its own
// share. Fails when enforceShare counts direct deliveries, gives them up for the rest, or gives up nothing, or when excess ignores
// perProvider.
func TestE5ABurstIsGivenUpOnlyWhereItIsNotTaken(t *testing.T) {
	t.Parallel()
	const quota, share = 40, 20
	for name, tc := range map[string]struct {
		dest  *Destination
		burst int
		// safe is the number of deliveries at the beginning of the burst for which memory has space. soon is how many of the rest are given up
		// soon.
		safe, soon int
		// least and most bound the number given up in the end.
		least, most int
	}{
		"taken at once": {takesIn(50 * time.Millisecond), 60, 60, 0, 0, 0},
		"taken in time": {takesIn(time.Second), 60, 60, 0, 0, 0},
		// The rest is put on the schedule after half a minute and given up within another, when 8 to 24 were sent.
		"taken slowly": {takesIn(20 * time.Second), 60, 60, 0, 60 - share - 24, 60 - share - 8},
		"more than memory has room for": {
			takesIn(20 * time.Second), 300, unknownDepth, 300 - unknownDepth - share, 300 - share - 24, 300 - share - 8,
		},
		"not taken": {&Destination{Sender: sendFunc(func(context.Context, provider.Notification) error {
			pass(20 * time.Second)
			return failure(event.Retry, provider.LabelTimeout)
		})}, 60, 60, 0, 60 - quota, 60 - share},
		"not ready": {&Destination{NotReady: "Secret not found"}, 60, badDepth, 60 - badDepth - share, 60 - quota, 60 - share},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.quota = quota
				for i := range quota {
					w.bus.publish(w.unbound("missing", fmt.Sprint("app", i)))
				}
				_, stop := w.run()
				wait(time.Minute)
				tc.dest.UID, tc.dest.Type = "p-chat", "generic"
				w.destinations.Put("team-a", "chat", tc.dest)
				together := make([]event.Delivery, tc.burst)
				for i := range together {
					together[i] = w.delivery("chat", fmt.Sprint("app", i))
				}
				w.bus.publish(together...)
				wait(spillAfter / 2)
				soon := givenUp(w, "chat")
				if len(soon) != tc.soon || len(soon) > 0 && soon[0] < together[0].Order+uint64(tc.safe) {
					t.Errorf("of %d up to %d these were given up soon: %v, want %d beyond the first %d",
						tc.burst, together[tc.burst-1].Order, soon, tc.soon, tc.safe)
				}
				wait(5 * time.Minute)
				stop()
				if n := len(givenUp(w, "chat")); n < tc.least || n > tc.most {
					t.Errorf("%d of %d were given up, want %d to %d", n, tc.burst, tc.least, tc.most)
				}
				if n := w.bus.left(); n > quota {
					t.Errorf("%d wait, the quota is %d", n, quota)
				}
			})
		})
	}
}

// givenUp returns the places of a Provider's dead letters among the events, in order.
func givenUp(w *world, name string) (orders []uint64) {
	for _, l := range w.bus.deadLetters() {
		if l.d.Provider == name {
			orders = append(orders, l.d.Order)
		}
	}
	slices.Sort(orders)
	return orders
}

// takesIn returns a Destination that accepts every notification after d.
func takesIn(d time.Duration) *Destination {
	return &Destination{Sender: sendFunc(func(context.Context, provider.Notification) error {
		pass(d)
		return nil
	})}
}
