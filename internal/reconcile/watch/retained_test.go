package watch

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"
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
