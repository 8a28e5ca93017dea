package watch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// FuzzE6TheLastEventIsTheObjectsState is E6 for a controller whose POSTs are lost now and then, while workers crash and the bus fails: in the
// end the object's last event is about its state, and no event repeats the one before while the object stayed in its state.
func FuzzE6TheLastEventIsTheObjectsState(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Add(uint64(707))   // fails when a POST's state that is left soon is not recorded
	f.Add(uint64(1040))  // fails when a POST that is read back counts before those that followed it are
	f.Add(uint64(24903)) // fails when a POST counts that a watcher's event followed
	f.Add(uint64(22882)) // fails when a POST's state that is left is recorded only if nothing else has no record
	f.Add(uint64(25483)) // fails when a state that is due is published between the two requests of the next status
	f.Add(uint64(13392)) // fails when a state of before the term that is seen late is not compared with the last event
	f.Add(uint64(7624))  // fails when the POSTs about a state that is left are forgotten
	f.Fuzz(func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { playTruth(t, seed) })
	})
}

func playTruth(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	upTo := func(d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
	w := newWorld(t)
	w.define("Kustomization", "v1")
	failed, revision, since := false, 1, time.Now()
	var changes []time.Time // of the outcome
	put := func(k kustomization) {
		k.failed, k.since = failed, since
		k.message = fmt.Sprint("message ", failed, revision)
		if k.revision == "" {
			k.revision = fmt.Sprint("r", revision)
		}
		w.put(k)
	}
	put(kustomization{})
	stop := w.silent()
	running, failing := true, false
	unanswered := rand.New(rand.NewPCG(seed, 1)) // with even seeds workers die before they answer a POST, and read POSTs back slowly
	if seed%2 == 0 {
		w.bus.followPause = time.Duration(unanswered.IntN(3)) * 100 * time.Millisecond
	}
	for range 60 {
		pass(upTo([]time.Duration{2 * time.Second, 10 * time.Second, 40 * time.Second}[rng.IntN(3)]))
		switch rng.IntN(12) {
		case 0:
			if running {
				stop()
			} else {
				_, stop = w.replica(true)
			}
			running = !running
		case 1:
			failing = !failing
			w.bus.setFail(failing)
			w.state.setFail(failing)
		}
		if rng.IntN(3) == 0 {
			w.put(kustomization{unknown: true, reason: "Progressing", revision: fmt.Sprint("r", revision), since: time.Now()})
			pass(upTo(4 * time.Second))
		}
		before := revision
		if next := rng.IntN(2) == 0; next != failed {
			failed, since = next, time.Now()
			changes = append(changes, since)
		}
		revision += rng.IntN(2)
		if !failing && rng.IntN(3) > 0 {
			outcome := event.OutcomeSucceeded
			if failed {
				outcome = event.OutcomeFailed
			}
			r := postRecord(outcome, "uid-1", fmt.Sprint("r", revision))
			r.Event.Message = fmt.Sprint("message ", failed, revision)
			w.accept(r)
			if running && seed%2 == 0 && unanswered.IntN(4) == 0 {
				stop()
				pass(time.Duration(unanswered.Int64N(int64(3 * time.Second))))
				_, stop = w.replica(true)
				pass(time.Duration(unanswered.Int64N(int64(emitterTime - 3*time.Second))))
			}
			pass(upTo(time.Second))
		}
		if rng.IntN(3) == 0 {
			put(kustomization{revision: fmt.Sprint("r", before)})
			pass(upTo(131 * time.Millisecond))
		}
		put(kustomization{})
	}
	w.bus.setFail(false)
	w.state.setFail(false)
	if !running {
		_, stop = w.replica(true)
	}
	pass(5 * time.Minute)
	stop()
	for i, e := range w.bus.events[min(1, len(w.bus.events)):] {
		before := w.bus.events[i]
		if e.Source == event.SourceWatch && e.Outcome == before.Outcome && e.Event.Revision() == before.Event.Revision() &&
			!slices.ContainsFunc(changes, func(at time.Time) bool { return at.After(before.Accepted) && at.Before(e.Accepted) }) {
			t.Errorf("%s %s is told at %s by %s and at %s again", e.Outcome, e.Event.Revision(), before.Accepted, before.Source, e.Accepted)
		}
	}
	last, found, err := w.bus.LastEvent(t.Context(), "team-a", "Kustomization", "app")
	w.must(err)
	if !found {
		return
	}
	if got, want := fmt.Sprint(last.Outcome == event.OutcomeFailed, " ", last.Event.Revision()), fmt.Sprint(failed, " r", revision); got != want {
		t.Errorf("the last event is %s by %s, and the object is %s", got, last.Source, want)
	}
}

// E6: while no worker runs, a failure and its end are POSTed, and a second failure is not. Fails when the POST of the first counts for the
// second.
func TestE6APostThatAnotherFollowedDoesNotTellTheState(t *testing.T) {
	restarted(t, kustomization{}, func(t *testing.T, w *world, stop func()) {
		stop()
		w.accept(postRecord(event.OutcomeFailed, "uid-1", "r1"))
		w.put(kustomization{failed: true})
		pass(time.Minute)
		w.accept(postRecord(event.OutcomeSucceeded, "uid-1", "r1"))
		w.put(kustomization{})
		pass(time.Minute)
		w.put(kustomization{failed: true})
		defer w.next()()
		w.wantTold("failed app r1")
	})
}

// E6: as in TestE6APostThatAWatchersEventFollowedTellsNothing, and the worker reads its own event late. Fails when the POST counts until then.
func TestE6APostThatAWatchersEventFollowedTellsNothingThoughTheEventsAreReadLate(t *testing.T) {
	led(t, func(t *testing.T, w *world) {
		w.put(kustomization{failed: true})
		pass(4 * time.Second)
		w.bus.setLate()
		w.accept(postRecord(event.OutcomeFailed, "uid-1", "r2"))
		pass(settleTime + time.Second)
		w.wantTold("failed app r1")
		w.bus.catchUp()
		w.put(kustomization{failed: true, revision: "r2"})
		pass(time.Minute)
		w.bus.catchUp()
		pass(time.Minute)
		w.wantTold("failed app r1", "failed app r2")
	})
}

// E6: POSTs tell a failure and its end before the term, and the object fails once more before the worker has decided about the end. Fails when
// the POST of the first failure counts for the second.
func TestE6APostThatAnotherFollowedDoesNotTellTheStateThatComesBeforeADecision(t *testing.T) {
	restarted(t, kustomization{}, func(t *testing.T, w *world, stop func()) {
		stop()
		for _, outcome := range []event.Outcome{event.OutcomeFailed, event.OutcomeSucceeded} {
			w.accept(postRecord(outcome, "uid-1", "r2"))
			w.put(kustomization{failed: outcome == event.OutcomeFailed, revision: "r2"})
			pass(time.Minute)
		}
		w.bus.setFail(true)
		_, stop = w.replica(true)
		defer stop()
		w.put(kustomization{failed: true, revision: "r2"})
		pass(time.Minute)
		w.bus.setFail(false)
		pass(time.Minute)
		w.wantTold("failed app r2")
	})
}

// E6: a POST tells a recovery before the term, and the object fails again before the worker has decided about the recovery. Fails when the
// failure is not told once more because it is the last published state.
func TestE6TheReturnFromAStateThatAWorkerFoundAndAPostToldIsPublished(t *testing.T) {
	for name, tc := range map[string]struct{ before, work func(w *world) }{
		"and the events cannot be read": {before: func(w *world) { w.bus.setFail(true) }, work: func(*world) {}},
		"after another event, and is at work when the recovery is due": {
			before: func(w *world) { w.accept(postRecord(event.OutcomeNone, "uid-1", "r1")) },
			work: func(w *world) {
				w.put(kustomization{unknown: true})
				pass(emitterTime)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			restarted(t, kustomization{failed: true}, func(t *testing.T, w *world, stop func()) {
				stop()
				w.accept(postRecord(event.OutcomeSucceeded, "uid-1", "r1"))
				w.put(kustomization{})
				pass(time.Minute)
				tc.before(w)
				_, stop = w.replica(true)
				defer stop()
				pass(emitterTime - time.Second)
				tc.work(w)
				w.put(kustomization{failed: true})
				pass(time.Minute)
				w.bus.setFail(false)
				pass(time.Minute)
				w.wantTold("failed app r1")
			})
		})
	}
}
