package watch

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/event"
)

func (w *world) wantTold(want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.bus.told()); diff != "" {
		w.t.Errorf("told by the watchers (-want +got):\n%s", diff)
	}
}

const stateKey = "Kustomization/team-a/app"

// Fails when begin skips the baseline.
func TestTheFirstStartOfAKindIsSilent(t *testing.T) {
	restarted(t, kustomization{failed: true}, func(t *testing.T, w *world, stop func()) {
		defer stop()
		if !w.state.has("baseline-done.Kustomization") || !w.state.has(stateKey) {
			t.Error("the baseline is not recorded")
		}
		w.put(kustomization{name: "new", uid: "uid-2"})
		pass(6 * time.Second)
		w.wantTold("succeeded new r1")
	})
}

// T6: the API server takes the time of a condition in a zone in which its year is one that JSON can express, where in UTC it is none. Tenants
// may write statuses. Fails when one object with such a time keeps the first state of its kind from being recorded, so that no transition of
// anybody's is published; or when its own are not.
func TestT6AnObjectWithATimeThatCannotBeStoredHoldsUpNoOther(t *testing.T) {
	for _, since := range []time.Time{
		time.Date(9999, time.December, 31, 23, 59, 59, 0, time.FixedZone("", -3600)),
		time.Date(0, time.January, 1, 0, 0, 0, 0, time.FixedZone("", 3600)),
	} {
		restarted(t, kustomization{since: since}, func(t *testing.T, w *world, stop func()) {
			defer stop()
			w.put(kustomization{name: "other", uid: "uid-2"})
			pass(time.Minute)
			w.put(kustomization{since: since, failed: true})
			pass(time.Minute)
			w.wantTold("succeeded other r1", "failed app r1")
		})
	}
}

// E6: nothing missed while down. Fails when Lead does not consider the objects that exist at its start, and, for the second start, when
// the state is not recorded after the event.
func TestE6AChangeWhileDownIsPublishedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Kustomization", "v1")
		w.put(kustomization{})
		w.put(kustomization{name: "same", uid: "uid-2"})
		w.silent()()
		w.put(kustomization{failed: true})
		w.put(kustomization{name: "born", uid: "uid-3"})
		pass(time.Hour)
		for range 3 {
			w.next()()
		}
		if got := w.bus.told(); len(got) != 2 {
			t.Errorf("told %v, want the failure and the new object, once each", got)
		}
	})
}

// E6 over a crash between the event and its record. Fails when known never finds the last event, and, if another event was published
// after it, when the ID is not derived from the record.
func TestE6ACrashBeforeTheRecordDoesNotTellTwice(t *testing.T) {
	for name, after := range map[string]func(*world){
		"it is the object's last event": func(w *world) { clear(w.bus.ids) }, // and too old for the stream to know its ID
		"another event came after it":   func(w *world) { w.accept(postRecord(event.OutcomeNone, "uid-1", "r1")) },
	} {
		t.Run(name, func(t *testing.T) {
			restarted(t, kustomization{}, func(t *testing.T, w *world, stop func()) {
				w.crash(stop, kustomization{failed: true})
				after(w)
				defer w.next()()
				w.wantTold("failed app r1")
			})
		})
	}
}

// Fails when a transition that a crash removed from the queue is not compared with the object's last event.
func TestAPostOfATransitionLostInACrashIsNotRepeated(t *testing.T) {
	restarted(t, kustomization{}, func(t *testing.T, w *world, stop func()) {
		w.put(kustomization{failed: true})
		w.accept(postRecord(event.OutcomeFailed, "uid-1", "r1"))
		stop() // before it settled
		pass(time.Hour)
		defer w.next()()
		w.wantTold()
		if got := decodeLast(w.state.values[stateKey].value); got.Outcome != event.OutcomeFailed {
			t.Errorf("recorded %+v, want the failure", got)
		}
	})
}

// Fails when states are compared by revision alone, or when two transitions into one state have one ID.
func TestAFlapAtOneRevisionIsPublishedEachTime(t *testing.T) {
	led(t, func(t *testing.T, w *world) {
		for _, failed := range []bool{true, false, true} {
			w.put(kustomization{failed: failed})
			pass(6 * time.Second)
		}
		w.wantTold("failed app r1", "succeeded app r1", "failed app r1")
		ids := map[string]bool{}
		for _, r := range w.bus.events {
			ids[r.ID] = true
		}
		if len(ids) != 3 {
			t.Errorf("%d IDs, want 3", len(ids))
		}
	})
}

// E6: a state that an object only passes through is no event. Fails when arrive keeps a state that the object has left, or when it does
// not replace one by a later one of its outcome. Fails when a state's wait counts from an earlier form of it.
func TestE6IntermediateStatesAreNotPublished(t *testing.T) {
	for name, tc := range map[string]struct {
		states []kustomization
		want   []string
	}{
		"a failure that was mended before it settled":        {[]kustomization{{failed: true}, {}}, nil},
		"a failure, a recovery and the failure again":        {[]kustomization{{failed: true}, {}, {failed: true}}, []string{"failed app r1"}},
		"revisions in quick succession":                      {[]kustomization{{revision: "r2"}, {revision: "r3"}, {revision: "r4"}}, []string{"succeeded app r4"}},
		"a success beside the old revision, then the new":    {[]kustomization{{failed: true}, {revision: "r0"}, {revision: "r2"}}, []string{"succeeded app r2"}},
		"no revision while the source is stored once more":   {[]kustomization{{unknown: true}, {revision: "-"}, {}}, nil},
		"a failure that is tried again and stays":            {[]kustomization{{failed: true}, {unknown: true}, {failed: true}}, []string{"failed app r1"}},
		"a failure that is tried again, which takes a while": {[]kustomization{{failed: true}, {unknown: true}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			led(t, func(t *testing.T, w *world) {
				for _, k := range tc.states {
					w.put(k)
					pass(time.Second)
				}
				pass(time.Minute)
				w.wantTold(tc.want...)
			})
		})
	}
}

// Fails when consider does not compare resource versions: after a list, informers repeat older updates.
func TestAnOlderStateThatComesLateIsNoTransition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Kustomization", "v1")
		older := w.object(kustomization{})
		watcher, stop := w.replica(true)
		defer stop()
		pass(time.Minute)
		w.put(kustomization{failed: true})
		kind := kindNamed("Kustomization")
		watcher.observed(watcher.informerOf(kind), objectOf(kind, older))
		pass(time.Minute)
		w.wantTold("failed app r1")
	})
}

// Fails when a failed attempt drops the transition, or lets the object's next one overtake it.
func TestTransitionsOutlastTheBusInOrder(t *testing.T) {
	led(t, func(t *testing.T, w *world) {
		w.bus.setFail(true)
		w.put(kustomization{failed: true})
		pass(10 * time.Minute)
		w.bus.setFail(false)
		w.state.setFail(true)
		pass(time.Minute)
		w.put(kustomization{revision: "r2"})
		pass(time.Minute)
		w.state.setFail(false)
		pass(time.Minute)
		w.wantTold("failed app r1", "succeeded app r2")
	})
}

// Fails when more than one state of an object waits, and when the last is lost.
func TestAFlappingObjectIsBoundedAndItsLastStateIsPublished(t *testing.T) {
	led(t, func(t *testing.T, w *world) {
		w.bus.setFail(true)
		for i := range 501 {
			w.put(kustomization{failed: i%2 == 0, revision: fmt.Sprint("r", i)})
		}
		w.bus.setFail(false)
		pass(10 * time.Minute)
		w.wantTold("failed app r500")
	})
}

// Fails when the key outlives the object, or when a record of another UID counts for the new object.
func TestTheStateOfARecreatedObjectIsPublishedAnew(t *testing.T) {
	restarted(t, kustomization{}, func(t *testing.T, w *world, stop func()) {
		w.remove("app")
		pass(time.Second)
		if w.state.has(stateKey) {
			t.Error("the record outlives the object")
		}
		w.put(kustomization{uid: "uid-2"})
		pass(time.Minute)
		stop()
		w.remove("app")
		w.put(kustomization{uid: "uid-3"}) // while down
		w.put(kustomization{name: "gone", uid: "uid-4"})
		_, stop = w.replica(true)
		pass(time.Minute)
		stop()
		w.remove("gone") // while down
		defer w.next()()
		got := w.bus.told()
		slices.Sort(got) // the objects are independent of each other
		if diff := cmp.Diff([]string{"succeeded app r1", "succeeded app r1", "succeeded gone r1"}, got); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		if w.state.has("Kustomization/team-a/gone") {
			t.Error("the record of an object removed while down stays")
		}
	})
}

// E6: fails when deletion keeps the waiting transition, or the record of the last published state.
func TestE6AStateThatEndsWithItsObjectBeforeItSettledIsNotPublished(t *testing.T) {
	led(t, func(t *testing.T, w *world) {
		w.put(kustomization{failed: true})
		pass(time.Second)
		w.remove("app")
		pass(time.Minute)
		w.wantTold()
		if w.state.has(stateKey) {
			t.Error("the record outlives the object")
		}
	})
}

func TestAFollowerTellsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Kustomization", "v1")
		w.silent()()
		_, stop := w.replica(false)
		defer stop()
		w.put(kustomization{failed: true})
		pass(time.Minute)
		w.wantTold()
	})
}

func TestAnEventSaysWhatTheObjectSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Kustomization", "v1")
		defer w.silent()()
		at := time.Now().Add(-time.Second)
		w.put(kustomization{
			failed: true, reason: "BuildFailed", message: "no such file", since: at, labels: map[string]string{"team": "a"},
			annotations: map[string]string{"event.toolkit.fluxcd.io/env": "prod", "other": "x"},
		})
		pass(time.Minute)
		want := event.Event{
			InvolvedObject: event.ObjectReference{
				APIVersion: "kustomize.toolkit.fluxcd.io/v1", Kind: "Kustomization", Namespace: "team-a", Name: "app",
				UID: "uid-1", ResourceVersion: fmt.Sprint(w.version),
			},
			Severity: "error", Timestamp: at.UTC().Truncate(time.Second), Message: "no such file", Reason: "BuildFailed",
			Metadata: map[string]string{
				"kustomize.toolkit.fluxcd.io/revision": "r1", "event.toolkit.fluxcd.io/env": "prod",
			},
			ReportingController: "kustomize-controller",
		}
		if len(w.bus.events) != 1 {
			t.Fatalf("%d events, want 1", len(w.bus.events))
		}
		got := w.bus.events[0]
		if diff := cmp.Diff(want, got.Event); diff != "" {
			t.Errorf("event (-want +got):\n%s", diff)
		}
		if !got.Known || got.Source != event.SourceWatch || got.Outcome != event.OutcomeFailed || got.Labels["team"] != "a" {
			t.Errorf("record %+v", got)
		}
		w.put(kustomization{failed: true, revision: "r2", since: at})
		pass(time.Minute)
		if got := w.bus.events[1].Event.Timestamp; !got.After(want.Timestamp) {
			t.Errorf("a new revision without a transition of the condition has the old time %v", got)
		}
	})
}

// Fails when an object costs a goroutine, or an update of an unchanged state a write.
func TestTenThousandObjectsCostNoGoroutinesAndNoWritesAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Kustomization", "v1")
		for i := range 10_000 {
			name := fmt.Sprint("app-", i)
			u := w.object(kustomization{name: name, uid: name})
			w.must(w.dynamic.Tracker().Create(kustomizations, u, "team-a"))
		}
		stop := w.silent()
		stop()
		puts := w.state.puts
		defer w.next()()
		if w.state.puts != puts {
			t.Errorf("%d writes for unchanged objects", w.state.puts-puts)
		}
		if n := runtime.NumGoroutine(); n > 200 {
			t.Errorf("%d goroutines", n)
		}
		w.wantTold()
	})
}

// Fails when a watcher that no longer leads publishes a transition of the earlier term.
func TestLeadEndsWithItsContextAndMayBeCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Kustomization", "v1")
		w.put(kustomization{})
		w.silent()()
		watcher, stop := w.replica(false)
		defer stop()
		for _, failed := range []bool{true, false} {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- watcher.Lead(ctx) }()
			synctest.Wait()
			if err := watcher.Lead(ctx); err == nil {
				t.Error("led twice at a time")
			}
			w.put(kustomization{failed: failed})
			pass(time.Minute)
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		w.wantTold("failed app r1", "succeeded app r1")
	})
}
