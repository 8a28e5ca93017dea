package watch

import (
	"bytes"
	"cmp"
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

// E6: a POST came while the watch was away, and told the state of an object that a list shows a minute later. Fails when it does not count, so
// that the state is published once more, because of its age, or because the cache knew the object of that name by another UID.
func TestE6APostAboutAStateThatWasReachedUnseenCovers(t *testing.T) {
	for name, tc := range map[string]struct {
		first, listed kustomization
		since         time.Duration // of the listed state, before the POST
	}{
		"a recovery":                     {first: kustomization{failed: true}},
		"another revision":               {listed: kustomization{revision: "r2"}, since: time.Hour},
		"an object made anew":            {first: kustomization{uid: "former"}},
		"a state that it returns to":     {listed: kustomization{revision: "r2", unknown: true}},
		"a new object, which returns so": {first: kustomization{name: "other"}, listed: kustomization{unknown: true}},
	} {
		t.Run(name, func(t *testing.T) {
			restarted(t, tc.first, func(t *testing.T, w *world, stop func()) {
				defer stop()
				tc.listed.since = time.Now().Add(-tc.since)
				r := postRecord(event.OutcomeSucceeded, "uid-1", cmp.Or(tc.listed.revision, "r1"))
				w.accept(r)
				pass(time.Minute)
				w.accept(postRecord(event.OutcomeNone, "uid-1", r.Event.Revision()))
				w.leader.list(t, w.object(tc.listed))
				if tc.listed.unknown {
					pass(time.Second)
					tc.listed.unknown, tc.listed.since = false, r.Accepted
					w.put(tc.listed)
				}
				pass(time.Minute)
				w.wantTold()
			})
		})
	}
}

// E6: a POST told a recovery while the watch was away, and the POST of the next failure was lost. Fails when the failure, which the object was in
// before as well, is not told once more; or when it is though the object was Ready at no time.
func TestE6AReturnFromAStateThatAPostToldUnseenIsPublished(t *testing.T) {
	for name, tc := range map[string]struct {
		unknown, ever bool // the object is at work when it is listed, and was Ready
		want          []string
	}{
		"it is listed":        {ever: true, want: []string{"failed app r1"}},
		"it is listed before": {unknown: true, ever: true, want: []string{"failed app r1"}},
		"it was never Ready":  {},
	} {
		t.Run(name, func(t *testing.T) {
			restarted(t, kustomization{failed: true}, func(t *testing.T, w *world, stop func()) {
				defer stop()
				pass(time.Minute)
				k := kustomization{failed: true, unknown: tc.unknown, since: time.Now().Add(-time.Hour)}
				w.accept(postRecord(event.OutcomeSucceeded, "uid-1", "r1"))
				pass(time.Minute)
				if tc.ever {
					k.since = time.Now()
				}
				w.leader.list(t, w.object(k))
				if tc.unknown {
					pass(time.Second)
					k.unknown = false
					w.put(k)
				}
				pass(time.Minute)
				w.wantTold(tc.want...)
			})
		})
	}
}

// E6: a state is told and cannot be recorded, as the store is away. A POST tells another one while the watch is away too, and the POST of the
// return is lost. Fails when the state, which has no record yet, is not told once more.
func TestE6AReturnToAStateWithoutARecordFromAnotherThatAPostToldUnseenIsPublished(t *testing.T) {
	failed := kustomization{failed: true}
	for name, tc := range map[string]struct {
		posted bool
		want   []string
	}{
		"a POST told the state":    {posted: true, want: []string{"failed app r1"}},
		"a watcher told the state": {want: []string{"failed app r1", "failed app r1"}},
	} {
		t.Run(name, func(t *testing.T) {
			led(t, func(t *testing.T, w *world) {
				if tc.posted {
					w.accept(postRecord(event.OutcomeFailed, "uid-1", "r1"))
				}
				w.state.setFail(true)
				w.put(failed)
				pass(emitterTime)
				w.accept(postRecord(event.OutcomeSucceeded, "uid-1", "r1"))
				pass(time.Second)
				w.leader.list(t, w.object(failed))
				pass(time.Second)
				w.state.setFail(false)
				pass(time.Minute)
				w.wantTold(tc.want...)
			})
		})
	}
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
