package alerts

import (
	"slices"
	"testing"
	"time"

	"notifier/internal/event"
)

// A delivery that was rescheduled again while it was handed out has two messages, which the bus lists in any order. Fails when expect
// uses the last listed one: the copy on the schedule is then left there when the delivery ends.
func TestADeliveryThatIsListedTwiceIsKnownToBeOnTheSchedule(t *testing.T) {
	due := event.Scheduled{ID: "d1", Order: 1, Namespace: "team-a", Provider: "chat", ObjectKey: "app", Due: true}
	scheduled := due
	scheduled.Due = false
	for _, listed := range [][]event.Scheduled{{due, scheduled}, {scheduled, due}} {
		w, now := newWorld(t), time.Now()
		s := newShard(w.deliverer(w.bus.session()), 0)
		s.expect(slices.Clone(listed), now)
		if _, e := s.queue("team-a", "chat", now).place("app", 1, "d1", now); !e.rescheduled || !e.onSchedule {
			t.Errorf("listed as %+v: rescheduled %v, onSchedule %v", listed, e.rescheduled, e.onSchedule)
		}
	}
}
