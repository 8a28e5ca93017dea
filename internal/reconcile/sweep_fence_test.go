package reconcile

import (
	"sync/atomic"
	"testing"

	"notifier/internal/event"
)

// A process that was stopped goes on for some milliseconds after its term, with a cache from before. Fails when it then removes a report: the object
// may have been made again since, and the report may be the present worker's.
func TestAWorkerThatWasStoppedRemovesNoReportAfterItsTerm(t *testing.T) {
	s := oneOfEach()
	s.follower = true
	play(t, s, func(w *world) {
		var over atomic.Bool
		ctx := event.WithFence(w.t.Context(), func() bool { return !over.Load() })
		go func() { _ = w.Lead(ctx) }()
		w.settle()
		w.feed.put("Receiver/team-a/made-again", weakDenied)
		pass(sweepEvery)
		over.Store(true)
		pass(3 * sweepEvery)
		if value, err := w.feed.Get(ctx, "Receiver/team-a/made-again"); value == nil || err != nil {
			t.Errorf("the report is %q, %v", value, err)
		}
	})
}
