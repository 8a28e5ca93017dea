package alerts

import (
	"slices"
	"testing"
	"time"

	"notifier/internal/event"
)

// A delivery that was parked again while it was handed out has two messages, which the bus lists in any order. Fails when expect takes the
// one that was listed last: the copy on the schedule is then left there when the delivery ends.
func TestADeliveryThatIsListedTwiceIsKnownToBeOnTheSchedule(t *testing.T) {
	due := event.Parked{ID: "d1", Order: 1, Namespace: "team-a", Provider: "chat", ObjectKey: "app", Due: true}
	scheduled := due
	scheduled.Due = false
	for _, listed := range [][]event.Parked{{due, scheduled}, {scheduled, due}} {
		w, now := newWorld(t), time.Now()
		s := newShard(w.deliverer(w.bus.session()), 0)
		s.expect(slices.Clone(listed), now)
		if _, e := s.queue("team-a", "chat", now).place("app", 1, "d1", now); !e.parked || !e.shelved {
			t.Errorf("listed as %+v: parked %v, shelved %v", listed, e.parked, e.shelved)
		}
	}
}
