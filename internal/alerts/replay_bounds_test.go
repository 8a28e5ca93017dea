package alerts

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
	"notifier/internal/event/view"
)

// TestRefusedDeliveriesLeaveRoomForOthers fails when a request ends after older refused deliveries as many as it may replay: then the
// others are never replayed. It also fails when the refused ones whose reasons are left out are not counted.
func TestRefusedDeliveriesLeaveRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &refusing{}
		w.version("chat", "1", dest)
		w.version("other", "1", dest)
		d, _, stop := w.start()
		for range view.MaxReplay + 1 {
			w.bus.publish(w.routed("other", "app"))
		}
		var want []string
		for range 3 {
			is := w.routed("chat", "app")
			want = append(want, is.ID)
			w.bus.publish(is)
		}
		wait(time.Minute)
		dest.mended.Store(true)
		w.alerts.Delete("team-a/alert-of-other")
		r := replay(t, d, view.ReplayRequest{State: view.StateDead})
		wait(time.Minute)
		if r.Replayed != len(want) || r.More || len(r.Refused) != maxRefused || r.NotReplayed != view.MaxReplay+1 {
			t.Errorf("%d replayed, %d refused, %d with their reason, more: %t", r.Replayed, r.NotReplayed, len(r.Refused), r.More)
		}
		if got := dest.ids(); !slices.Equal(got, want) {
			t.Errorf("%v sent", got)
		}
		stop()
	})
}

// TestT6ReplaysAreBounded fails when a request has no bound, when the newest come first, or when a Provider has no rate of requests.
func TestT6ReplaysAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &refusing{}
		w.version("chat", "1", dest)
		d, _, stop := w.start()
		want := make([]string, 0, view.MaxReplay+5)
		for range view.MaxReplay + 5 {
			is := w.routed("chat", "app")
			want = append(want, is.ID)
			w.bus.publish(is)
		}
		wait(time.Minute)
		if n := len(w.bus.deadLetters()); n != len(want) {
			t.Fatalf("%d letters", n)
		}
		dest.mended.Store(true)
		for i, n := range []int{view.MaxReplay, 5, 0} {
			r := replay(t, d, view.ReplayRequest{State: view.StateDead})
			if r.Replayed != n || r.More != (i == 0) || r.More == r.Until.IsZero() || r.Until.After(time.Now()) {
				t.Errorf("%d: %+v", i, r)
			}
			wait(time.Minute)
		}
		if got := dest.ids(); !slices.Equal(got, want) {
			t.Errorf("%d sent", len(got))
		}
		wait(time.Hour)
		for i := range requestBurst {
			replay(t, d, view.ReplayRequest{IDs: want[i : i+1]})
		}
		last := view.ReplayRequest{IDs: want[requestBurst : requestBurst+1]}
		_, err := d.Replay(t.Context(), "team-a", last)
		if refusal, ok := errors.AsType[*event.Error](err); !ok || refusal.RetryAfter <= 0 {
			t.Errorf("%v", err)
		}
		pass(requestEvery)
		replay(t, d, last)
		wait(requestEvery)
		stop()
		if _, err := d.Replay(t.Context(), "team-a", view.ReplayRequest{IDs: want[1:2]}); !errors.Is(err, view.ErrNoWorker) {
			t.Errorf("without shards: %v", err)
		}
	})
}

// The bus takes longer for all than one request may. Fails when a request ends with an error, tells of none, or counts others than it
// replays: what is asked for again at once is then refused, since it is on its way already.
func TestRequestsOnASlowBusReplayEachAsTheySay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &refusing{}
		w.version("chat", "1", dest)
		d, _, stop := w.start()
		var want []string
		for range 100 {
			is := w.routed("chat", "app")
			want = append(want, is.ID)
			w.bus.publish(is)
		}
		wait(time.Minute)
		dest.mended.Store(true)
		w.bus.late = map[string]time.Duration{"replay": replayTime / 40}
		all, sum := view.ReplayRequest{State: view.StateDead}, 0
		for requests := range 4 {
			began := time.Now()
			r := replay(t, d, all)
			if took := time.Since(began); took > replayTime {
				t.Errorf("answered after %s", took)
			}
			sum += r.Replayed
			if r.Replayed < 20 && sum < 100 || r.Replayed > 40 || r.More != (sum < 100) || r.More == r.Until.IsZero() || len(r.Refused) > 0 {
				t.Errorf("%d: %+v", requests, r)
			}
			if !r.More {
				break
			}
			all.Until = r.Until
		}
		wait(time.Minute)
		if got := dest.ids(); sum != 100 || !slices.Equal(got, want) {
			t.Errorf("%d replayed, %d sent", sum, len(got))
		}
		stop()
	})
}

// T6: the client of a request for a replay leaves at any moment. Fails when the shard, which still takes the request up, cannot note what it
// refuses: the process would end.
func TestT6AClientThatLeavesDuringAReplayDoesNoHarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d, _, stop := w.start()
		ctx, leave := context.WithTimeout(t.Context(), replayTime)
		leave()
		twice := []ended{{object: "app", id: "one", seq: 1}, {object: "app", id: "one", seq: 1}} // of which one is refused
		for range 100 {                                                                          // the shard takes up about half of them
			_, _, _ = d.resend(ctx, event.ProviderKey{Namespace: "team-a", Provider: "chat"}, twice)
		}
		wait(time.Minute)
		stop()
	})
}
