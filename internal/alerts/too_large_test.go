package alerts

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
	"notifier/internal/event/view"
)

// large makes a delivery that the destination is sent and that the bus does not take.
func (w *world) large() event.Delivery {
	d := w.routed("chat", "app")
	d.Event.Message = strings.Repeat("m", 200)
	w.bus.records[d.Order].Event.Message = d.Event.Message
	w.bus.most = 100
	return d
}

// E5: an owner asks for a replay of a delivery that was sent, and that the bus takes no more. Fails when it is tried until the worker ends,
// and what comes after it of its object waits for it.
func TestE5AReplayThatIsTooLargeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.version("chat", "1", dest)
		d, _, stop := w.start()
		first, small := w.large(), w.routed("chat", "app")
		w.bus.publish(first, small)
		wait(time.Minute)
		r := replay(t, d, view.ReplayRequest{IDs: []string{first.ID, small.ID}})
		if r.Replayed != 1 || r.Refused[first.ID] != refusedTooLarge {
			t.Errorf("%+v", r)
		}
		next := w.routed("chat", "app")
		w.bus.publish(next)
		wait(time.Minute)
		if got := dest.ids(); !slices.Equal(got, []string{first.ID, small.ID, small.ID, next.ID}) {
			t.Errorf("sent %v", got)
		}
		stop()
	})
}
