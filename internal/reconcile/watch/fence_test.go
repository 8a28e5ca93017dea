package watch

import (
	"testing"
	"time"
)

// E4, E6: a process that was stopped until another is the worker goes on for some milliseconds with a cache from before. Fails when it publishes
// a state, which the object may have left, over what the worker has published since: before it looks what that is, or after.
func TestE4AWorkerThatWasReplacedPublishesNothing(t *testing.T) {
	for name, replace := range map[string]func(w *world){
		"before": func(w *world) { w.replaced.Store(true) },
		"after":  func(w *world) { w.bus.beforeLast = func() { w.replaced.Store(true) } },
	} {
		t.Run(name, func(t *testing.T) {
			restarted(t, kustomization{}, func(t *testing.T, w *world, stop func()) {
				replace(w)
				w.put(kustomization{failed: true})
				pass(time.Minute)
				stop()
				w.wantTold()
				w.replaced.Store(false)
				w.bus.beforeLast = nil
				w.next()()
				w.wantTold("failed app r1")
			})
		})
	}
}

// Fails when such a worker forgets the published state of an object that was deleted and, while the process was stopped, made again.
func TestAWorkerThatWasReplacedForgetsNothing(t *testing.T) {
	restarted(t, kustomization{}, func(t *testing.T, w *world, stop func()) {
		defer stop()
		w.replaced.Store(true)
		w.remove("app")
		pass(time.Minute)
		if !w.state.has(stateKey) {
			t.Error("the published state is forgotten")
		}
	})
}
