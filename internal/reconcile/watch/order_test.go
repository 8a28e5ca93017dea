package watch

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// Late answers to POSTs: kustomize-controller writes a success before it POSTs it, and tries for 15 s. Fails when due ignores that, or
// when a kind without POSTs waits as long.
func TestASuccessThatIsPostedLastIsWaitedForWherePostsComeIn(t *testing.T) {
	for name, tc := range map[string]struct {
		posting bool
		posted  time.Duration
		want    []string
	}{
		"the fifth try":                {posting: true, posted: 15 * time.Second},
		"every try failed":             {posting: true, want: []string{"succeeded app r2"}},
		"nobody POSTs: after 5 s":      {want: []string{"succeeded app r2"}},
		"nobody POSTs, until somebody": {posted: 7 * time.Second, want: []string{"succeeded app r2"}},
	} {
		t.Run(name, func(t *testing.T) {
			led(t, func(t *testing.T, w *world) {
				if tc.posting {
					w.accept(postRecord(event.OutcomeSucceeded, "uid-1", "r1"))
					pass(30 * time.Minute)
				}
				w.put(kustomization{revision: "r2"})
				pass(6 * time.Second)
				if got := len(w.bus.told()); (got == 1) == tc.posting {
					t.Errorf("%d told after 6 s", got)
				}
				if tc.posted > 0 {
					pass(tc.posted - 6*time.Second)
					w.accept(postRecord(event.OutcomeSucceeded, "uid-1", "r2"))
				}
				pass(time.Minute)
				w.wantTold(tc.want...)
			})
		})
	}
}

// After a start: controllers retry the POSTs that no replica served for 20 s more. Fails when due ignores the begin of the term.
func TestAfterAStartTheEmittersTriesAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Kustomization", "v1")
		w.put(kustomization{})
		w.put(kustomization{name: "silent", uid: "uid-2"})
		w.silent()()
		w.put(kustomization{revision: "r2"})
		w.put(kustomization{name: "silent", uid: "uid-2", revision: "r2"})
		_, stop := w.replica(true)
		defer stop()
		pass(14 * time.Second)
		w.wantTold()
		w.accept(postRecord(event.OutcomeSucceeded, "uid-1", "r2"))
		pass(time.Minute)
		w.wantTold("succeeded silent r2")
	})
}

// E4: fails when contradicted does not look at the last event, so that a failure is published after a POST about a later state; and
// when the wait has no end, so that a POST suppresses it (E9).
func TestE4AStateIsNotPublishedAfterANewerPost(t *testing.T) {
	for name, tc := range map[string]struct {
		leaves bool
		want   []string
	}{
		"the object goes on, as its POST says": {leaves: true},
		"the object stays, whatever is POSTed": {want: []string{"failed app r1"}},
	} {
		t.Run(name, func(t *testing.T) {
			led(t, func(t *testing.T, w *world) {
				w.put(kustomization{failed: true})
				pass(4 * time.Second)
				w.accept(postRecord(event.OutcomeNone, "uid-1", "r2"))
				pass(3 * time.Second)
				w.wantTold()
				if tc.leaves {
					w.put(kustomization{unknown: true})
				}
				for range 100 {
					w.accept(postRecord(event.OutcomeNone, "uid-1", "r2"))
					pass(time.Second)
				}
				w.wantTold(tc.want...)
			})
		})
	}
}

// E4: the bus is away for longer than a POST that contradicts a state is waited for, and the first event after that is the POST of the next
// state. Fails when the state is published after that POST, as its wait counts from before the outage.
func TestE4AStateThatOutlastedTheBusIsNotPublishedAfterANewerPost(t *testing.T) {
	for name, disputed := range map[string]bool{"for the first time": false, "as before the outage": true} {
		t.Run(name, func(t *testing.T) {
			led(t, func(t *testing.T, w *world) {
				begin, posted := time.Now(), make(chan struct{})
				w.bus.beforeLast = func() {
					if time.Since(begin) < 2*maxWait {
						return
					}
					w.bus.beforeLast = nil
					w.bus.setFail(false)
					if _, err := w.bus.PublishEvent(context.Background(), postRecord(event.OutcomeFailed, "uid-1", "r2")); err != nil {
						t.Error(err)
					}
					close(posted)
				}
				w.put(kustomization{failed: true})
				if disputed {
					pass(settleTime - time.Second)
					w.accept(postRecord(event.OutcomeNone, "uid-1", "r2"))
					pass(2 * time.Second)
				}
				w.bus.setFail(true)
				<-posted
				pass(time.Second)
				w.put(kustomization{failed: true, revision: "r2"})
				pass(time.Minute)
				w.wantTold()
			})
		})
	}
}

// E4, E6: the bus refuses the event of a state, and takes POSTs before it is asked again. Fails when the state is then published, as it was
// decided; or when its end is not, though a POST told it; or when the POST of its return counts for it.
func TestE4E6AStateWhoseEventWasRefusedIsNotPublishedAfterAPost(t *testing.T) {
	failed := kustomization{failed: true}
	for name, tc := range map[string]struct {
		posted, then []kustomization
		want         []string
	}{
		"about it":                           {posted: []kustomization{failed}},
		"about it with another message":      {posted: []kustomization{{failed: true, message: "2"}}},
		"about the next":                     {posted: []kustomization{{failed: true, revision: "r2"}}},
		"about its end and its return":       {posted: []kustomization{{}, failed}},
		"about it, and the object leaves it": {posted: []kustomization{failed}, then: []kustomization{{}}, want: []string{"succeeded app r1"}},
	} {
		t.Run(name, func(t *testing.T) {
			led(t, func(t *testing.T, w *world) {
				w.bus.setRefusing(true)
				w.put(failed)
				pass(maxWait) // the next attempt is some time later
				for _, k := range tc.posted {
					outcome := event.OutcomeSucceeded
					if k.failed {
						outcome = event.OutcomeFailed
					}
					r := postRecord(outcome, "uid-1", cmp.Or(k.revision, "r1"))
					r.Event.Message = k.message
					w.accept(r)
					w.put(k)
					pass(time.Millisecond)
				}
				w.accept(postRecord(event.OutcomeNone, "uid-1", "r1")) // so that none of them is the last event
				for _, k := range tc.then {
					w.put(k)
				}
				w.bus.setRefusing(false)
				pass(2 * time.Minute)
				w.wantTold(tc.want...)
			})
		})
	}
}

// E6: a POST tells the next failure, and the object stays in its state for longer than that is waited for, so that this one is published after
// the POST. Fails when the POST counts for the next failure once the object is in it: what was told last would stay wrong.
func TestE6APostThatAWatchersEventFollowedTellsNothing(t *testing.T) {
	for name, crash := range map[string]bool{"while a worker runs": false, "over a change of the worker": true} {
		t.Run(name, func(t *testing.T) {
			restarted(t, kustomization{}, func(t *testing.T, w *world, stop func()) {
				w.put(kustomization{failed: true})
				pass(4 * time.Second)
				w.accept(postRecord(event.OutcomeFailed, "uid-1", "r2"))
				pass(settleTime + time.Second)
				w.wantTold("failed app r1")
				if crash {
					stop()
					_, stop = w.replica(true)
				}
				w.put(kustomization{failed: true, revision: "r2"})
				pass(time.Minute)
				stop()
				w.wantTold("failed app r1", "failed app r2")
			})
		})
	}
}

// E4: fails when publish does not require the object's last event to be that which decide saw.
func TestE4AnEventOfTheSameMomentIsNotOvertaken(t *testing.T) {
	led(t, func(t *testing.T, w *world) {
		w.bus.beforePublish = func() {
			w.bus.beforePublish = nil
			r := postRecord(event.OutcomeFailed, "uid-1", "r1")
			if _, err := w.bus.PublishEvent(context.Background(), r); err != nil {
				t.Error(err)
			}
		}
		w.put(kustomization{failed: true})
		pass(time.Minute)
		w.wantTold()
		if got := decodeLast(w.state.values[stateKey].value); got.Outcome != event.OutcomeFailed {
			t.Errorf("recorded %+v, want the failure", got)
		}
	})
}

// The first request of a status has the outcome beside the old revision, even after a long reconciliation that began in that very
// state. Fails when a returning state is due at once.
func TestAStateThatComesBackIsPublishedWhenItsStatusIsWhole(t *testing.T) {
	for name, work := range map[string]time.Duration{"after seconds": 10 * time.Second, "after minutes": 5 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			led(t, func(t *testing.T, w *world) {
				w.put(kustomization{revision: "r2"})
				pass(time.Second)
				w.put(kustomization{revision: "r2", unknown: true})
				pass(work)
				w.put(kustomization{revision: "r2"})
				pass(150 * time.Millisecond)
				w.put(kustomization{revision: "r3"})
				pass(time.Minute)
				w.wantTold("succeeded app r3")
			})
		})
	}
}

// The first request of a status has the message beside the old revision, also when the outcome stays. Fails when a state that is due is then
// published with that message.
func TestAStateWithANewMessageIsPublishedWhenItsStatusIsWhole(t *testing.T) {
	led(t, func(t *testing.T, w *world) {
		r := postRecord(event.OutcomeFailed, "uid-1", "r2")
		r.Event.Message = "build failed: 2"
		w.accept(r)
		w.put(kustomization{failed: true, revision: "r2", message: "build failed: 2"})
		pass(settleTime - 100*time.Millisecond)
		w.put(kustomization{failed: true, revision: "r2", message: "build failed: 3"})
		pass(150 * time.Millisecond)
		w.put(kustomization{failed: true, revision: "r3", message: "build failed: 3"})
		pass(time.Minute)
		w.wantTold("failed app r3")
	})
}

// Fails when a state waits for a pause that its object does not make.
func TestAnObjectThatNeverRestsHasAnEventWithinAMinute(t *testing.T) {
	for name, tc := range map[string]struct {
		form func(i int) kustomization
		work bool
	}{
		"its message changes":                              {form: func(i int) kustomization { return kustomization{failed: true, message: fmt.Sprint(i)} }},
		"its message changes by way of its reconciliation": {form: func(i int) kustomization { return kustomization{failed: true, message: fmt.Sprint(i)} }, work: true},
		"its revision changes":                             {form: func(i int) kustomization { return kustomization{failed: true, revision: fmt.Sprint("r", i)} }},
	} {
		t.Run(name, func(t *testing.T) {
			led(t, func(t *testing.T, w *world) {
				for begin, i := time.Now(), 0; time.Since(begin) < maxWait+time.Second; i++ {
					w.put(tc.form(i))
					pass(400 * time.Millisecond)
					if tc.work {
						w.put(kustomization{unknown: true})
					}
					pass(400 * time.Millisecond)
				}
				if n := len(w.bus.told()); n != 1 {
					t.Errorf("%d events", n)
				}
			})
		})
	}
}

// Fails when each retry of a failure restarts its wait.
func TestAFailureThatIsTriedAgainEveryTwoSecondsIsPublished(t *testing.T) {
	led(t, func(t *testing.T, w *world) {
		for range 4 {
			w.put(kustomization{failed: true})
			pass(2 * time.Second)
			w.put(kustomization{failed: true, unknown: true})
			pass(100 * time.Millisecond)
		}
		w.wantTold("failed app r1")
	})
}

// E3: fails when a POST counts only once its post was taken.
func TestE3APostWhoseNoteIsLateTellsTheTransition(t *testing.T) {
	led(t, func(t *testing.T, w *world) {
		w.bus.mute()
		w.put(kustomization{failed: true})
		w.accept(postRecord(event.OutcomeFailed, "uid-1", "r1"))
		pass(time.Minute)
		w.wantTold()
	})
}

// Fails when a state is published with the message with which it was first seen.
func TestAStateIsPublishedWithItsNewestMessage(t *testing.T) {
	led(t, func(t *testing.T, w *world) {
		for _, message := range []string{"timed out after 1s", "timed out after 2s"} {
			w.put(kustomization{failed: true, message: message})
			pass(time.Second)
		}
		pass(time.Minute)
		w.wantTold("failed app r1")
		if got := w.bus.events[0].Event.Message; got != "timed out after 2s" {
			t.Errorf("told %q", got)
		}
	})
}

// E6: the object changes while its state is being decided, or published beside a POST. Fails when claim ignores the transition that
// waits by then, or when unclaim keeps a state that the object has left.
func TestE6AStateThatIsLeftAtTheLastMomentIsNotPublished(t *testing.T) {
	for name, moment := range map[string]func(w *world, recover func()){
		"before it is decided": func(w *world, recover func()) {
			w.bus.beforeLast = func() {
				w.bus.beforeLast = nil
				recover()
			}
		},
		"when a POST came in": func(w *world, recover func()) {
			w.bus.beforePublish = func() {
				w.bus.beforePublish = nil
				recover()
				if _, err := w.bus.PublishEvent(context.Background(), postRecord(event.OutcomeNone, "uid-1", "r2")); err != nil {
					w.t.Error(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			led(t, func(t *testing.T, w *world) {
				moment(w, func() {
					w.must(w.dynamic.Tracker().Update(kustomizations, w.object(kustomization{revision: "r2"}), "team-a"))
					<-time.After(time.Millisecond) // the informer has it
				})
				w.put(kustomization{failed: true})
				pass(time.Minute)
				w.wantTold("succeeded app r2")
			})
		})
	}
}

// E3: fails when publish mistakes its own event, the answer to which was lost, for a newer one.
func TestE3AnAnswerThatWasLostDoesNotTellTwice(t *testing.T) {
	led(t, func(t *testing.T, w *world) {
		w.bus.loseAnswers = 1
		w.put(kustomization{failed: true})
		pass(time.Minute)
		w.wantTold("failed app r1")
		if got := decodeLast(w.state.values[stateKey].value); got.Outcome != event.OutcomeFailed {
			t.Errorf("recorded %+v, want the failure", got)
		}
	})
}

// Fails when no event is published about an object that never settles.
func TestAnObjectThatNeverSettlesHasAnEventEachMinute(t *testing.T) {
	led(t, func(t *testing.T, w *world) {
		for i := range 130 {
			w.put(kustomization{revision: fmt.Sprint("r", i+2)})
			pass(time.Second)
		}
		pass(time.Minute)
		if got := w.bus.told(); len(got) != 3 || got[2] != "succeeded app r131" {
			t.Errorf("told %v, want two on the way and the last", got)
		}
	})
}
