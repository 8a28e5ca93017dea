package watch

import (
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// crash has the worker publish the transition into k, and ends it before that is recorded.
func (w *world) crash(stop func(), k kustomization) {
	w.state.setFail(true)
	w.put(k)
	pass(emitterTime + time.Second)
	stop()
	w.state.setFail(false)
}

// E6 over a crash between the event and its record, after which the object is back in the recorded state. Readers were told of the state
// between, so this one is told as well. Fails when the next worker compares the object with the record alone.
func TestE6AReturnToTheRecordedStateIsPublishedIfTheStateBetweenWas(t *testing.T) {
	failed := kustomization{failed: true}
	for name, back := range map[string]func(w *world) (stop func()){
		"while no worker is there": func(w *world) func() {
			w.put(failed)
			pass(time.Hour)
			_, stop := w.replica(true)
			return stop
		},
		"after another event of the object": func(w *world) func() {
			w.accept(postRecord(event.OutcomeNone, "uid-1", "r1"))
			w.put(failed)
			_, stop := w.replica(true)
			return stop
		},
		"as the next worker begins": func(w *world) func() {
			_, stop := w.replica(true)
			w.put(failed)
			return stop
		},
		"after it was at work as the next worker began": func(w *world) func() {
			w.put(kustomization{unknown: true, reason: "Progressing"})
			_, stop := w.replica(true)
			pass(time.Minute)
			w.put(failed)
			return stop
		},
		"and the state between cannot be recorded at once": func(w *world) func() {
			w.state.setFail(true)
			w.put(failed)
			_, stop := w.replica(true)
			pass(time.Minute)
			w.state.setFail(false)
			return stop
		},
	} {
		t.Run(name, func(t *testing.T) {
			restarted(t, failed, func(t *testing.T, w *world, stop func()) {
				pass(emitterTime)
				w.crash(stop, kustomization{})
				w.wantTold("succeeded app r1")
				stop = back(w)
				pass(2 * time.Minute)
				stop()
				w.wantTold("succeeded app r1", "failed app r1")
				defer w.next()()
				w.wantTold("succeeded app r1", "failed app r1")
			})
		})
	}
}

// E6: a POST tells a state, the worker dies before it settles, and the object returns meanwhile, for which nothing is POSTed. Fails when the
// next worker does not publish the state once more, or publishes it again after that. E9: fails when the POST is recorded as a transition: the
// object may have been in its recorded state all the time.
func TestE6TheNextWorkerCorrectsWhatAPostTold(t *testing.T) {
	restarted(t, kustomization{failed: true}, func(t *testing.T, w *world, stop func()) {
		pass(time.Minute)
		w.accept(postRecord(event.OutcomeSucceeded, "uid-1", "r1"))
		pass(time.Second)
		stop()
		pass(time.Hour)
		w.put(kustomization{failed: true})
		_, stop = w.replica(true)
		pass(2 * time.Second)
		value, _, _, err := w.state.Get(t.Context(), "Kustomization/team-a/app")
		w.must(err)
		if last := decodeLast(value); last.Outcome != event.OutcomeFailed {
			t.Errorf("recorded as %s", last.Outcome)
		}
		pass(time.Minute)
		stop()
		w.wantTold("failed app r1")
		defer w.next()()
		w.wantTold("failed app r1")
	})
}

// E6: as above, and the worker dies before it has recorded the state of before the POST, which it has published. Fails when the next worker
// does not publish that state once more, as it compares the object with the record alone.
func TestE6TheNextWorkerCorrectsWhatAPostToldAfterAnEventWithoutARecord(t *testing.T) {
	restarted(t, kustomization{}, func(t *testing.T, w *world, stop func()) {
		pass(time.Minute)
		w.crash(stop, kustomization{failed: true})
		w.accept(postRecord(event.OutcomeSucceeded, "uid-1", "r1"))
		pass(time.Second)
		w.put(kustomization{failed: true})
		w.state.setFail(true)
		_, stop = w.replica(true)
		defer stop()
		pass(time.Second)
		w.state.setFail(false)
		pass(time.Minute)
		w.wantTold("failed app r1", "failed app r1")
	})
}

// E6: the only object of the cluster is made anew, and its success POSTed, some minutes before the next worker begins. Fails when that worker does
// not read the POST, as there is no record.
func TestE6APostCountsThoughNoStateIsRecorded(t *testing.T) {
	restarted(t, kustomization{}, func(t *testing.T, w *world, stop func()) {
		w.remove("app")
		stop()
		w.accept(postRecord(event.OutcomeSucceeded, "uid-2", "r1"))
		w.put(kustomization{uid: "uid-2"})
		pass(time.Second)
		w.accept(postRecord(event.OutcomeNone, "uid-2", "r1"))
		pass(time.Hour)
		defer w.next()()
		w.wantTold()
	})
}

// E6: POSTs tell a failure and the return from it, and the worker dies before either settles. The next reads the POSTs back one by one. Fails
// when it publishes the return once more as long as it has read the first alone.
func TestE6AStateIsNotCorrectedBeforeThePostsAreReadBack(t *testing.T) {
	restarted(t, kustomization{}, func(t *testing.T, w *world, stop func()) {
		pass(time.Minute)
		w.accept(postRecord(event.OutcomeFailed, "uid-1", "r1"))
		pass(time.Second)
		stop()
		pass(time.Second)
		w.accept(postRecord(event.OutcomeSucceeded, "uid-1", "r1"))
		w.put(kustomization{since: time.Now()})
		pass(time.Minute)
		w.bus.followPause = time.Second
		_, stop = w.replica(true)
		defer stop()
		pass(time.Minute)
		w.wantTold()
	})
}

// E6: a success is POSTed and has not settled when the worker dies, and the object is being reconciled when the next one begins. Fails when
// consider does not take the success, which that worker sees late, for one of before its term.
func TestE6APostCountsForAStateThatANewWorkerSeesLate(t *testing.T) {
	for name, first := range map[string]kustomization{
		"a recovery": {failed: true, revision: "r2"}, "a revision": {}, "the first of an object": {name: "former"},
	} {
		t.Run(name, func(t *testing.T) {
			restarted(t, first, func(t *testing.T, w *world, stop func()) {
				pass(time.Minute)
				w.accept(postRecord(event.OutcomeSucceeded, "uid-1", "r2"))
				w.put(kustomization{revision: "r2"})
				pass(time.Second)
				stop()
				pass(time.Minute)
				w.put(kustomization{unknown: true, reason: "Progressing", revision: "r2"})
				_, stop = w.replica(true)
				defer stop()
				pass(time.Second)
				w.put(kustomization{revision: "r2"})
				pass(time.Minute)
				w.wantTold()
			})
		})
	}
}

// E6: a success is POSTed and has not settled when the worker dies. Fails when the next one publishes it once more, because the object's last
// event has no outcome, or proves nothing.
func TestE6ALaterPostDoesNotHideThatASuccessWasPublished(t *testing.T) {
	for name, later := range map[string]func() *event.Record{
		"without an outcome": func() *event.Record { return postRecord(event.OutcomeNone, "uid-1", "r1") },
		"in doubt": func() *event.Record {
			r := postRecord(event.OutcomeFailed, "uid-1", "r1")
			r.Doubted = true
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			restarted(t, kustomization{failed: true}, func(t *testing.T, w *world, stop func()) {
				pass(time.Minute)
				w.accept(postRecord(event.OutcomeSucceeded, "uid-1", "r1"))
				w.put(kustomization{})
				pass(time.Second)
				stop()
				w.accept(later())
				pass(time.Hour)
				defer w.next()()
				w.wantTold()
			})
		})
	}
}

// E6: POSTs tell two successes before the term, and the object is back at the first. Fails when the POST of the first counts, as the second was
// told last.
func TestE6APostThatAnotherFollowedBeforeTheTermDoesNotTellASuccess(t *testing.T) {
	restarted(t, kustomization{failed: true}, func(t *testing.T, w *world, stop func()) {
		stop()
		for _, revision := range []string{"r2", "r3"} {
			pass(time.Minute)
			w.accept(postRecord(event.OutcomeSucceeded, "uid-1", revision))
			w.put(kustomization{revision: revision})
		}
		pass(time.Minute)
		w.put(kustomization{revision: "r2"})
		defer w.next()()
		w.wantTold("succeeded app r2")
	})
}

// T6: fails when a record that cannot be written, as in a full store, holds up other objects.
func TestARecordThatCannotBeWrittenHoldsUpNoOtherObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Kustomization", "v1")
		w.put(kustomization{})
		w.put(kustomization{name: "other", uid: "uid-2"})
		stop := w.silent()
		w.state.failKey = stateKey
		w.put(kustomization{failed: true})
		pass(emitterTime)
		stop()
		defer w.next()()
		w.put(kustomization{name: "other", uid: "uid-2", failed: true})
		pass(emitterTime)
		w.wantTold("failed app r1", "failed other r1")
	})
}

// Fails when the times of two workers whose clocks differ decide which of two events has no record.
func TestAnUnrecordedEventIsFoundThoughAClockIsBehind(t *testing.T) {
	restarted(t, kustomization{failed: true}, func(t *testing.T, w *world, stop func()) {
		pass(emitterTime)
		w.put(kustomization{})
		pass(time.Minute) // recorded
		w.crash(stop, kustomization{failed: true})
		w.wantTold("succeeded app r1", "failed app r1")
		events := w.bus.events
		events[1].Accepted = events[0].Accepted.Add(-time.Second)
		w.put(kustomization{})
		defer w.next()()
		w.wantTold("succeeded app r1", "failed app r1", "succeeded app r1")
		if got := decodeLast(w.state.values[stateKey].value); got.Ordinal != 3 {
			t.Errorf("recorded %+v, want the third transition", got)
		}
	})
}

// Fails when the events of before count for a store that was made anew: its first start is silent.
func TestTheFirstStartOfANewStoreIsSilentWhateverTheEventsSay(t *testing.T) {
	restarted(t, kustomization{failed: true}, func(t *testing.T, w *world, stop func()) {
		pass(emitterTime)
		w.put(kustomization{})
		pass(emitterTime + time.Second)
		stop()
		clear(w.state.values)
		w.put(kustomization{failed: true})
		defer w.next()()
		w.wantTold("succeeded app r1")
	})
}

// Fails when a start writes records that exist.
func TestAStartRecordsNothingThatIsRecorded(t *testing.T) {
	restarted(t, kustomization{}, func(t *testing.T, w *world, stop func()) {
		w.put(kustomization{failed: true})
		pass(time.Minute)
		w.wantTold("failed app r1")
		stop()
		puts := w.state.puts
		defer w.next()()
		if n := w.state.puts - puts; n > 0 {
			t.Errorf("%d records were written", n)
		}
	})
}
