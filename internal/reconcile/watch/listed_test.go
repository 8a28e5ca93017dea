package watch

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"notifier/internal/event"
)

// Fails when a state that was reached unseen, as during an outage of the API server, waits though it has lasted for long. Fails when a
// state that is new, or that differs in its revision alone, is published before a POST about it may have come.
func TestAStateThatHasLastedUnseenIsPublishedSoon(t *testing.T) {
	const long = postsSince + time.Minute // a success no longer waits for a POST
	for name, tc := range map[string]struct {
		up     time.Duration
		now    kustomization
		lasted time.Duration
		soon   bool
	}{
		"a failure of a minute ago":          {long, kustomization{failed: true}, time.Minute, true},
		"a failure of before a start":        {emitterTime / 2, kustomization{failed: true}, time.Minute, false},
		"a failure of now":                   {long, kustomization{failed: true}, 0, false},
		"a time in the future":               {long, kustomization{failed: true}, -time.Minute, false},
		"another revision of the same state": {long, kustomization{revision: "r2"}, time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.define("Kustomization", "v1")
				w.put(kustomization{})
				watcher, stop := w.replica(true)
				defer stop()
				pass(tc.up)
				tc.now.since = time.Now().Add(-tc.lasted)
				watcher.list(t, w.object(tc.now))
				pass(2 * time.Second)
				if soon := len(w.bus.told()) > 0; soon != tc.soon {
					t.Errorf("published within 2 s: %t", soon)
				}
				pass(5 * time.Second)
				if n := len(w.bus.told()); n != 1 {
					t.Errorf("%d events after 7 s", n)
				}
			})
		})
	}
}

// Fails when a POST that came while the watch was away does not count, so that its state is published once more.
func TestAPostAboutAStateThatWasReachedUnseenCovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Kustomization", "v1")
		w.put(kustomization{failed: true})
		watcher, stop := w.replica(true)
		defer stop()
		pass(time.Minute)
		since := time.Now()
		w.accept(postRecord(event.OutcomeSucceeded, "uid-1", "r1"))
		pass(time.Minute)
		watcher.list(t, w.object(kustomization{since: since}))
		pass(time.Minute)
		w.wantTold()
	})
}

// list has the watcher observe an object as an answer to a list shows it.
func (w *Watcher) list(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	answer := unstructured.UnstructuredList{Object: map[string]any{"kind": "List"}, Items: []unstructured.Unstructured{*o}}
	body, err := answer.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	kind := kindNamed("Kustomization")
	list, err := decodeList(kind, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	w.observed(w.running[kind], list.Items[0])
	synctest.Wait()
}
