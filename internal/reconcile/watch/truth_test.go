package watch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// FuzzE6TheLastEventIsTheObjectsState is E4 and E6 for a controller whose POSTs are lost now and then, while workers crash and the bus fails: in
// the end the object's last event is about its state, no event repeats the one before while the object stayed in its state, and a watcher's is
// about no state that a POST left behind.
func FuzzE6TheLastEventIsTheObjectsState(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
		f.Add(restless + seed)
		f.Add(unseen + seed)
	}
	f.Add(uint64(707))            // fails when a POST's state that is left soon is not recorded
	f.Add(uint64(1040))           // fails when a POST that is read back counts before those that followed it are
	f.Add(uint64(24903))          // fails when a POST counts that a watcher's event followed
	f.Add(uint64(22882))          // fails when a POST's state that is left is recorded only if nothing else has no record
	f.Add(uint64(25483))          // fails when a state that is due is published between the two requests of the next status
	f.Add(uint64(13392))          // fails when a state of before the term that is seen late is not compared with the last event
	f.Add(uint64(7624))           // fails when the POSTs about a state that is left are forgotten
	f.Add(uint64(unseen + 1436))  // fails when an earlier POST does not count for a success that comes after a list
	f.Add(uint64(unseen + 32))    // fails when a POST is forgotten because the cache knows the object by another UID
	f.Add(uint64(unseen + 1578))  // fails when the return from a state that a POST told unseen is not published
	f.Add(uint64(unseen + 8494))  // fails when a POST counts by the first of two lists
	f.Add(uint64(unseen + 13690)) // fails when a disputed state that the bus refused is published after its object was deleted
	f.Add(uint64(unseen + 14311)) // the same as 13690, and the object goes on
	f.Add(uint64(unseen + 4695))  // fails when the return to a state that has no record yet is not published
	f.Add(uint64(unseen + 6811))  // fails when a POST of long before the term does not count where nothing is recorded
	f.Fuzz(func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { playTruth(t, seed) })
	})
}

// restless is the first of the seeds whose object changes its message without a pause at times, whose controller POSTs events without an outcome
// as well, and whose bus is away for minutes or refuses the events of watchers.
const restless = 1 << 20

// truth is an object of which everything is known.
type truth struct {
	*world
	seed     uint64
	failed   bool
	revision int
	made     int // objects of its name
	since    time.Time
	watches  watches
	slow     atomic.Int64 // how long the bus takes for what only watchers ask of it
	// states are those that the object has reached, changes the times at which its outcome changed.
	states  []reached
	changes []time.Time
	// more decides about what restless seeds have.
	more *rand.Rand
}

// reached is a state that an object reached, and when.
type reached struct {
	state string
	at    time.Time
}

func (o *truth) stateNow() string { return fmt.Sprint(o.failed, " r", o.revision, " ", o.uid()) }

func (o *truth) uid() string { return fmt.Sprint("uid-", o.made) }

// stateOfRecord is stateNow for an event.
func stateOfRecord(r *event.Record) string {
	return fmt.Sprint(r.Outcome == event.OutcomeFailed, " ", r.Event.Revision(), " ", r.Event.InvolvedObject.UID)
}

// write writes the object's status.
func (o *truth) write(k kustomization) {
	o.t.Helper()
	k.uid, k.failed, k.since = o.uid(), o.failed, o.since
	if k.message == "" {
		k.message = o.message()
	}
	if k.revision == "" {
		k.revision = fmt.Sprint("r", o.revision)
	}
	o.put(k)
}

func (o *truth) message() string { return fmt.Sprint("message ", o.failed, o.revision) }

// change brings the object to its next state.
func (o *truth) change(failed bool, revision int) {
	if failed != o.failed {
		o.failed, o.since = failed, time.Now()
		o.changes = append(o.changes, o.since)
	}
	o.revision = revision
	o.states = append(o.states, reached{o.stateNow(), time.Now()})
}

// isRestless decides whether the object does something that has the chance of one in n with a restless seed.
func (o *truth) isRestless(n int) bool { return o.seed >= restless && o.more.IntN(n) == 0 }

// stir changes the message faster than that is waited for.
func (o *truth) stir(d time.Duration) {
	o.t.Helper()
	for i, end := 0, time.Now().Add(d); time.Now().Before(end); i++ {
		o.write(kustomization{message: fmt.Sprint("try ", i)})
		pass(time.Duration(o.more.Int64N(int64(wholeAfter - time.Millisecond))))
	}
}

func playTruth(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	upTo := func(d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
	o := &truth{world: newWorld(t), seed: seed, more: rand.New(rand.NewPCG(seed, 2)), since: time.Now(), made: 1}
	w := o.world
	o.watches.of(w)
	if seed >= unseen {
		wait := func() { <-time.After(time.Duration(o.slow.Load())) }
		w.bus.beforeLast, w.bus.beforePublish = wait, wait
	}
	w.define("Kustomization", "v1")
	o.change(false, 1)
	o.write(kustomization{})
	stop := w.silent()
	running, failing := true, false
	unanswered := rand.New(rand.NewPCG(seed, 1)) // with even seeds workers die before they answer a POST, and read POSTs back slowly
	if seed%2 == 0 {
		w.bus.followPause = time.Duration(unanswered.IntN(3)) * 100 * time.Millisecond
	}
	stirs := true
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
		w.bus.setRefusing(o.isRestless(6))
		if o.isRestless(6) {
			w.state.loseAnswer()
		}
		if failing && o.isRestless(3) {
			pass(2 * maxWait)
		}
		if seed >= unseen {
			o.disturb()
		}
		if rng.IntN(3) == 0 {
			w.put(kustomization{uid: o.uid(), unknown: true, reason: "Progressing", revision: fmt.Sprint("r", o.revision), since: time.Now()})
			pass(upTo(4 * time.Second))
		}
		before, was := o.revision, o.stateNow()
		failed := rng.IntN(2) == 0
		o.change(failed, before+rng.IntN(2))
		stirs = !failed || o.stateNow() != was // a POST tells a failure in the message that it had
		if !failing && rng.IntN(3) > 0 {
			stirs = !failed
			outcome := event.OutcomeSucceeded
			if failed {
				outcome = event.OutcomeFailed
			}
			r := postRecord(outcome, o.uid(), fmt.Sprint("r", o.revision))
			r.Event.Message = o.message()
			w.accept(r)
			if running && seed%2 == 0 && unanswered.IntN(4) == 0 {
				stop()
				pass(time.Duration(unanswered.Int64N(int64(3 * time.Second))))
				_, stop = w.replica(true)
				wait := time.Duration(unanswered.Int64N(int64(emitterTime - 3*time.Second)))
				pass(min(wait, time.Until(r.Accepted.Add(statusLag-2*time.Second)))) // to end a slow worker takes time
			}
			pass(upTo(time.Second))
		}
		if rng.IntN(3) == 0 && !w.hides() {
			o.write(kustomization{revision: fmt.Sprint("r", before)})
			pass(upTo(131 * time.Millisecond))
		}
		o.write(kustomization{})
		if !failing && o.isRestless(4) {
			w.accept(postRecord(event.OutcomeNone, o.uid(), fmt.Sprint("r", o.revision)))
		}
		if o.isRestless(40) && stirs && seed < unseen {
			o.stir(2 * maxWait)
			pass(wholeAfter)
		}
		w.leader.consistent(t)
	}
	w.bus.setFail(false)
	w.bus.setRefusing(false)
	w.state.setFail(false)
	w.state.setSlow(nil)
	o.slow.Store(0)
	o.watches.see(true)
	if !running {
		_, stop = w.replica(true)
	}
	if o.isRestless(4) && stirs && seed < unseen {
		o.stir(5 * time.Minute)
	} else {
		pass(5 * time.Minute)
	}
	w.leader.consistent(t)
	stop()
	o.check()
}

// check compares the events with the object.
func (o *truth) check() {
	o.t.Helper()
	var told []*event.Record
	newest := 0 // the state that the newest POST told
	for i, e := range o.bus.events {
		if e.Outcome == event.OutcomeNone {
			continue
		}
		at := -1
		for j, s := range o.states {
			if s.state == stateOfRecord(e) && !s.at.After(o.bus.stored[i]) {
				at = j
			}
		}
		switch {
		case at < 0:
			o.t.Errorf("%s is told by %s, and the object was never so", stateOfRecord(e), e.Source)
		case e.Source == event.SourcePost:
			newest = at
		case at < newest && !o.watches.hid(e.Accepted) && !o.watches.hid(o.bus.stored[i]):
			o.t.Errorf("E4: %s is told by %s at %s, after a POST of %s", stateOfRecord(e), e.Source, o.bus.stored[i], o.states[newest].state)
		}
		told = append(told, e)
	}
	for i, e := range told[min(1, len(told)):] {
		before := told[i]
		again := e.ID == before.ID // by an attempt whose answer was lost
		if e.Source == event.SourceWatch && !again && stateOfRecord(e) == stateOfRecord(before) &&
			!slices.ContainsFunc(o.changes, func(at time.Time) bool { return at.After(before.Accepted) && at.Before(e.Accepted) }) {
			o.t.Errorf("%s is told at %s by %s and at %s again", stateOfRecord(e), before.Accepted, before.Source, e.Accepted)
		}
	}
	if len(told) > 0 {
		if last := told[len(told)-1]; stateOfRecord(last) != o.stateNow() {
			o.t.Errorf("the last event is %s by %s, and the object is %s", stateOfRecord(last), last.Source, o.stateNow())
		}
	}
}

// E6: a POST tells a state and the object leaves it, both at the moment at which it is decided. Fails when the state is published although it
// is about to be recorded as POSTed.
func TestE6AStateThatIsPostedAndLeftWhileItIsDecidedIsToldOnce(t *testing.T) {
	led(t, func(t *testing.T, w *world) {
		w.bus.beforeLast = func() {
			w.bus.beforeLast = nil
			unknown := postRecord(event.OutcomeNone, "uid-1", "r1")
			unknown.ID, unknown.Known = "unknown", false
			for _, r := range []*event.Record{postRecord(event.OutcomeFailed, "uid-1", "r1"), unknown} {
				if _, err := w.bus.PublishEvent(context.Background(), r); err != nil {
					t.Error(err)
				}
			}
			w.must(w.dynamic.Tracker().Update(kustomizations, w.object(kustomization{}), "team-a"))
			<-time.After(time.Millisecond) // the informer has it
		}
		w.put(kustomization{failed: true})
		pass(time.Minute)
		w.wantTold("succeeded app r1")
	})
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
