package watch

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
	"weak"

	"notifier/internal/event"
)

// Fails when a published transition, or one whose state the object has left, stays in memory, and with it a former version of the object.
func TestAFormerVersionOfAnObjectIsNotKept(t *testing.T) {
	for name, play := range map[string]func(w *world){
		"published": func(*world) { pass(6 * time.Second) },
		"left":      func(w *world) { w.put(kustomization{}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.define("Kustomization", "v1")
				w.put(kustomization{})
				watcher, stop := w.replica(true)
				defer stop()
				pass(time.Minute)
				w.put(kustomization{failed: true})
				former := weak.Make(watcher.informerOf(kindNamed("Kustomization")).get("team-a", "app"))
				play(w)
				for _, labels := range []map[string]string{{"a": "1"}, {"a": "2"}} {
					w.put(kustomization{failed: name == "published", labels: labels})
				}
				pass(time.Minute)
				runtime.GC()
				if o := former.Value(); o != nil {
					t.Errorf("version %s of the object is kept", o.ResourceVersion)
				}
			})
		})
	}
}

// Fails when an object whose POSTed states cannot be recorded has ever more of them in memory.
func TestTheStatesOfAnObjectThatWaitToBeRecordedAreBounded(t *testing.T) {
	restarted(t, kustomization{}, func(t *testing.T, w *world, stop func()) {
		stop()
		watcher, stop := w.replica(true)
		defer stop()
		w.state.setFail(true)
		for range 2 * maxPostsPerObject {
			for _, outcome := range []event.Outcome{event.OutcomeFailed, event.OutcomeSucceeded} {
				w.accept(postRecord(outcome, "uid-1", "r1"))
				w.put(kustomization{failed: outcome == event.OutcomeFailed})
				pass(time.Second)
			}
		}
		for it, s := range watcher.leading.Load().subjects {
			if n := len(s.pending); n > maxPostsPerObject+1 {
				t.Errorf("%d states of %s wait", n, it)
			}
		}
	})
}

// Fails when the publisher has a copy of its own of the names of an object that it loaded, or keeps those of a former version.
func TestThePublisherSharesTheNamesOfAnObject(t *testing.T) {
	restarted(t, kustomization{}, func(t *testing.T, w *world, stop func()) {
		stop()
		watcher, stop := w.replica(true)
		defer stop()
		for _, labels := range []map[string]string{nil, {"a": "1"}} {
			w.put(kustomization{labels: labels})
			pass(time.Minute)
			cached := watcher.informerOf(kindNamed("Kustomization")).get("team-a", "app")
			for it := range watcher.leading.Load().subjects {
				if unsafe.StringData(it.name) != unsafe.StringData(cached.Name) {
					t.Errorf("with labels %v the name %s is twice in memory", labels, it.name)
				}
			}
		}
	})
}
