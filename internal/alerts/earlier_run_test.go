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
	"notifier/internal/event/view"
)

// An owner's replay of a sent delivery waits on the schedule behind another one, and the bus hands out a message of the first run once more: its
// acknowledgement was lost. Fails when that message ends the replay, which then waits there for a day, or takes its place there, so that the
// replay is forgotten; when the worker that scheduled it knows of it, and when its successor learns of it from the schedule alone.
func TestE2AMessageOfAnEarlierRunLeavesTheReplayOfItsDelivery(t *testing.T) {
	for name, takeover := range map[string]bool{"by the same worker": false, "by its successor": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { handOutEarlierRun(t, takeover) })
		})
	}
}

func handOutEarlierRun(t *testing.T, takeover bool) {
	w := newWorld(t)
	var mu sync.Mutex
	limited, got := false, []string(nil)
	w.version("chat", "1", sendFunc(func(_ context.Context, n provider.Notification) error {
		mu.Lock()
		defer mu.Unlock()
		if n.Replayed && !limited {
			limited = true
			return &event.Error{Class: event.Retry, Label: provider.LabelLimited, Reason: "HTTP 429", RetryAfter: 10 * time.Minute}
		}
		got = append(got, n.DeliveryID)
		return nil
	}))
	d, _, stop := w.start()
	first, second := w.routed("chat", "app"), w.routed("chat", "app")
	w.bus.publish(first)
	w.bus.publish(second)
	wait(time.Minute)
	if r := replay(t, d, view.ReplayRequest{State: view.StateSent}); r.Replayed != 2 {
		t.Fatalf("%+v", r)
	}
	wait(time.Minute) // the second one is on the schedule until the first one is sent
	if takeover {
		stop()
	}
	earlier := second
	earlier.Reschedules, earlier.Recheck = 1, true
	w.bus.publish(earlier)
	if takeover {
		_, _, stop = w.start()
	}
	wait(time.Hour)
	stop()
	if want := []string{first.ID, second.ID, first.ID, second.ID}; !slices.Equal(got, want) {
		t.Errorf("sent %v, want %v", got, want)
	}
	if !w.bus.empty() {
		t.Errorf("%d messages are left", w.bus.left())
	}
}
