package alerts

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
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

// E2: fails when the loss of a delivery that is too large for the schedule is told nowhere, or when what is behind it waits for it.
func TestE2ADeliveryThatIsTooLargeToWaitIsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, good := newWorld(t), &sink{}
		d := w.large()
		w.version("chat", "1", sendFunc(func(ctx context.Context, n provider.Notification) error {
			if n.DeliveryID == d.ID {
				return failure(event.Retry, provider.LabelServer)
			}
			return good.Send(ctx, n)
		}))
		_, _, stop := w.start()
		w.bus.publish(d, w.routed("chat", "app"))
		wait(15 * time.Second)
		if n := good.count(); n != 1 {
			t.Errorf("%d of its successors are sent", n)
		}
		if dead := w.bus.deadLetters(); len(dead) != 1 || dead[0].label != event.LabelTooLarge {
			t.Errorf("the dead letters are %v", dead)
		}
		for _, key := range []string{"Alert/team-a/alert-of-chat", "Provider/team-a/chat"} {
			told := w.notes.standings(key)
			if is := told[len(told)-1]; is.Loss.Count != 1 || is.LastFailure.Class != event.LabelTooLarge {
				t.Errorf("%s: %+v", key, is)
			}
		}
		if !slices.ContainsFunc(w.notes.recorded(), func(e string) bool { return strings.Contains(e, ReasonGivenUp) }) {
			t.Errorf("the Events are %q", w.notes.recorded())
		}
		stop()
	})
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
