package alerts

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
	"notifier/internal/event/view"
)

// TestAReplayThatLeavesOutAProviderSaysThatThereIsMore fails when the remaining letters of a Provider with too many requests look like
// letters that cannot be replayed, or when letters that have died again count as remaining.
func TestAReplayThatLeavesOutAProviderSaysThatThereIsMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		dest, other := &refusing{}, &refusing{}
		w.version("chat", "1", dest)
		w.version("mail", "1", other)
		d, _, stop := w.start()
		for _, provider := range []string{"chat", "mail"} {
			w.bus.publish(w.routed(provider, "app"))
		}
		wait(time.Minute)
		other.mended.Store(true)
		for range requestBurst {
			d.requests.rate.Allow(destinationKey{"team-a", "chat"})
		}
		all := view.ReplayRequest{State: view.StateDead}
		first := replay(t, d, all)
		if first.Replayed != 1 || !first.More || !first.Until.Equal(time.Now()) {
			t.Errorf("%+v", first)
		}
		_, err := d.Replay(t.Context(), "team-a", all)
		if refusal, ok := errors.AsType[*event.Error](err); !ok || refusal.RetryAfter <= 0 {
			t.Errorf("%v", err)
		}
		wait(requestEvery)
		all.Until = first.Until
		if r := replay(t, d, all); r.Replayed != 1 || r.More || !r.Until.IsZero() {
			t.Errorf("%+v", r)
		}
		wait(time.Minute) // it is refused again
		if r := replay(t, d, all); r.Replayed != 0 || len(w.bus.deadLetters()) != 1 {
			t.Errorf("%+v, %d letters", r, len(w.bus.deadLetters()))
		}
		stop()
	})
}
