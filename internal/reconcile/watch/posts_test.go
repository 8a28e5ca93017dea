package watch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// E9: a POST proves nothing. Fails when take (of the publisher) ignores Known, or take (of the posts) the UID.
func TestE9AForgedPostDoesNotSuppress(t *testing.T) {
	unknown := postRecord(event.OutcomeFailed, "uid-1", "r1")
	unknown.Known = false
	for name, forged := range map[string]func() *event.Record{
		"another UID":                   func() *event.Record { return postRecord(event.OutcomeFailed, "uid-9", "r1") },
		"no UID":                        func() *event.Record { return postRecord(event.OutcomeFailed, "", "r1") },
		"the door did not know the UID": func() *event.Record { r := *unknown; r.Accepted = time.Now(); return &r },
		"another outcome":               func() *event.Record { return postRecord(event.OutcomeSucceeded, "uid-1", "r1") },
		"no outcome":                    func() *event.Record { return postRecord(event.OutcomeNone, "uid-1", "r1") },
	} {
		t.Run(name, func(t *testing.T) {
			led(t, func(t *testing.T, w *world) {
				w.accept(forged())
				w.put(kustomization{failed: true})
				pass(time.Second)
				w.accept(forged())
				pass(time.Minute)
				w.wantTold("failed app r1")
			})
		})
	}
}

// E9: a client that knows the UID can POST that the object failed, or recovered, with a message that Alerts exclude. Fails when covers
// does not compare a failure with the object's own conditions, when it counts a success that was POSTed long before, or when take (of
// the publisher) ignores Doubted.
func TestE9AForgedPostWithTheTrueUIDDoesNotSilenceWhatReallyHappens(t *testing.T) {
	with := func(outcome event.Outcome, message string, change func(*event.Record)) func() *event.Record {
		return func() *event.Record {
			r := postRecord(outcome, "uid-1", "r1")
			r.Event.Message = message
			if change != nil {
				change(r)
			}
			return r
		}
	}
	for name, tc := range map[string]struct {
		forged  func() *event.Record
		ahead   time.Duration
		recover bool
	}{
		"another failure, just before":                    {forged: with(event.OutcomeFailed, "forged", nil), ahead: time.Second},
		"no text":                                         {forged: with(event.OutcomeFailed, "", nil), ahead: time.Second},
		"how the text begins":                             {forged: with(event.OutcomeFailed, "build", nil), ahead: time.Second},
		"the text, by a POST that was doubted":            {forged: with(event.OutcomeFailed, "build failed: x", func(r *event.Record) { r.Doubted = true }), ahead: time.Second},
		"a recovery, long before":                         {forged: with(event.OutcomeSucceeded, "forged", nil), ahead: 2 * statusLag, recover: true},
		"a recovery, just before, by a POST in doubt":     {forged: with(event.OutcomeSucceeded, "x", func(r *event.Record) { r.Doubted = true }), ahead: time.Second, recover: true},
		"a failure, just before the object has recovered": {forged: with(event.OutcomeFailed, "build failed: x", nil), ahead: time.Second, recover: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.define("Kustomization", "v1")
				w.put(kustomization{failed: tc.recover, message: "build failed: x"})
				defer w.silent()()
				w.accept(tc.forged())
				pass(tc.ahead)
				w.put(kustomization{failed: !tc.recover, message: "build failed: x"})
				pass(time.Minute)
				if tc.recover {
					w.wantTold("succeeded app r1")
				} else {
					w.wantTold("failed app r1")
				}
			})
		})
	}
}

// The genuine POST of a failure repeats the object's message, with more after it where a controller adds its log. For a HelmRelease
// after a rollback another condition than Ready has it. Fails when says (of the object) requires equal texts, or reads Ready alone.
func TestAPostThatSaysWhatTheObjectSaysTellsItsFailure(t *testing.T) {
	for name, object := range map[string]kustomization{
		"by Ready":             {failed: true, message: "upgrade failed: x"},
		"by another condition": {failed: true, message: "rolled back", fault: "upgrade failed: x"},
	} {
		t.Run(name, func(t *testing.T) {
			led(t, func(t *testing.T, w *world) {
				r := postRecord(event.OutcomeFailed, "uid-1", "r1")
				r.Event.Message = "upgrade failed: x\n\nLast logs:\n" + strings.Repeat("y", event.MessageStart)
				w.accept(r)
				w.put(object)
				pass(time.Minute)
				w.wantTold()
			})
		})
	}
}

// A POST is compared with the known facts about an object: its outcome unless it is being reconciled, and always its labels. Fails when
// known returns an outcome during a reconciliation, or nil labels.
func TestLookupReturnsAnObjectsOutcomeAndLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Kustomization", "v1")
		watcher, stop := w.replica(false)
		defer stop()
		for _, tc := range []struct {
			object kustomization
			want   event.Outcome
		}{
			{kustomization{}, event.OutcomeSucceeded},
			{kustomization{failed: true}, event.OutcomeFailed},
			{kustomization{unknown: true}, event.OutcomeNone},
			{kustomization{failed: true, reason: "DependencyNotReady"}, event.OutcomeNone},
			{kustomization{reconciling: true}, event.OutcomeNone},
		} {
			w.put(tc.object)
			got, ok := watcher.Lookup("Kustomization", "team-a", "app")
			if !ok || got.Outcome != tc.want || got.Labels == nil || got.Version == "" || got.UID != "uid-1" {
				t.Errorf("%+v: known is %+v, %v", tc.object, got, ok)
			}
		}
	})
}

// E9 where the cache does not know the object yet. Fails when take (of the posts) ignores the UID.
func TestE9AForgedPostBeforeTheObjectIsThereDoesNotSuppress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.define("Kustomization", "v1")
		defer w.silent()()
		w.accept(postRecord(event.OutcomeFailed, "uid-9", "r1"))
		w.put(kustomization{failed: true})
		pass(time.Minute)
		w.wantTold("failed app r1")
	})
}

// E9 at a change of worker. Fails when known does not compare the UID, or ignores Known.
func TestE9AForgedLastEventDoesNotCountAsPublished(t *testing.T) {
	for name, forge := range map[string]func(*event.Record){
		"another UID":                   func(r *event.Record) { r.Event.InvolvedObject.UID = "uid-9" },
		"the door did not know the UID": func(r *event.Record) { r.Known = false },
		"about what came before":        func(r *event.Record) { r.Accepted = r.Accepted.Add(-24 * time.Hour) },
		"it was doubted":                func(r *event.Record) { r.Doubted = true },
		"another text":                  func(r *event.Record) { r.Event.Message = "forged" },
		"about an old revision":         func(r *event.Record) { r.Event.Metadata["kustomize.toolkit.fluxcd.io/revision"] = "r0" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.define("Kustomization", "v1")
				w.put(kustomization{})
				w.silent()()
				w.put(kustomization{failed: true})
				r := postRecord(event.OutcomeFailed, "uid-1", "r1")
				forge(r)
				w.accept(r)
				pass(10 * time.Minute) // longer ago than the new worker reads POSTs back
				_, stop := w.replica(true)
				defer stop()
				pass(time.Minute)
				w.wantTold("failed app r1")
			})
		})
	}
}

// E9 for an object that is being reconciled when a worker begins. Fails when known counts a POST after the term began, whose age
// covers would compare.
func TestE9APostLongBeforeTheStateThatAWorkerSeesLateDoesNotCountAsPublished(t *testing.T) {
	restarted(t, kustomization{}, func(t *testing.T, w *world, stop func()) {
		stop()
		w.put(kustomization{unknown: true})
		_, stop = w.replica(true)
		defer stop()
		pass(time.Second)
		w.accept(postRecord(event.OutcomeSucceeded, "uid-1", "r2"))
		pass(2 * statusLag)
		w.put(kustomization{revision: "r2"})
		pass(time.Minute)
		w.wantTold("succeeded app r2")
	})
}

// One event for two sources. Fails when take ignores posts from before the observation, or drops those before looking for one.
func TestATransitionThatComesBothWaysIsPublishedOnce(t *testing.T) {
	for name, posted := range map[string]time.Duration{
		"the POST comes a second before the status": -time.Second,
		"the POST comes with the status":            0,
		"the POST comes four seconds later":         4 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			led(t, func(t *testing.T, w *world) {
				if posted < 0 {
					w.accept(postRecord(event.OutcomeFailed, "uid-1", "r1"))
					pass(-posted)
				}
				w.put(kustomization{failed: true})
				if posted >= 0 {
					pass(posted)
					w.accept(postRecord(event.OutcomeFailed, "uid-1", "r1"))
				}
				pass(time.Minute)
				w.wantTold()
			})
		})
	}
}

// E6: a POST tells a failure that lasts a second, and the POSTs of the return and of the next failure are lost. Fails when the return is not
// published, as what was told last would stay wrong, or when the POST counts for the second failure as well.
func TestE6TheReturnFromAStateThatAPostToldIsATransition(t *testing.T) {
	led(t, func(t *testing.T, w *world) {
		w.put(kustomization{failed: true})
		w.accept(postRecord(event.OutcomeFailed, "uid-1", "r1"))
		pass(time.Second)
		w.accept(postRecord(event.OutcomeFailed, "uid-1", "r1")) // repeated, and not used up
		pass(time.Second)
		w.put(kustomization{})
		pass(time.Minute)
		w.wantTold("succeeded app r1")
		w.put(kustomization{failed: true})
		pass(time.Minute)
		w.wantTold("succeeded app r1", "failed app r1")
	})
}

// E6: POSTs tell a failure and the return from it, of which nothing can be recorded meanwhile, and the object fails once more without a POST.
// Fails when leave asks for no POST while a transition has no record.
func TestE6TheReturnToAStateWithoutARecordIsATransition(t *testing.T) {
	led(t, func(t *testing.T, w *world) {
		w.state.setFail(true)
		for _, outcome := range []event.Outcome{event.OutcomeFailed, event.OutcomeSucceeded} {
			w.accept(postRecord(outcome, "uid-1", "r1"))
			w.put(kustomization{failed: outcome == event.OutcomeFailed})
			pass(time.Second)
		}
		w.put(kustomization{failed: true})
		pass(time.Minute)
		w.state.setFail(false)
		pass(time.Minute)
		w.wantTold("failed app r1")
	})
}

// E6: the cache of a worker that has just begun lags behind the POSTs: it sees a failure, which a POST told, when the POST of the return from
// it is accepted already. Fails when the return is published as well.
func TestE6AReturnIsToldOnceThoughTheFailureWasSeenLate(t *testing.T) {
	restarted(t, kustomization{}, func(t *testing.T, w *world, stop func()) {
		pass(time.Minute)
		w.accept(postRecord(event.OutcomeFailed, "uid-1", "r1"))
		w.put(kustomization{failed: true})
		pass(time.Second)
		stop()
		pass(time.Second)
		w.accept(postRecord(event.OutcomeSucceeded, "uid-1", "r1"))
		pass(time.Second)
		_, stop = w.replica(true)
		defer stop()
		pass(time.Second)
		w.put(kustomization{})
		pass(time.Minute)
		w.wantTold()
	})
}

// E6: a process dies after it stored the POST of a state and before it answered. The controller tries again, and writes the status once it has
// an answer. Fails when the state before, which lasts meanwhile, is told once more, or the state itself.
func TestE6AStateWhosePostWasNotAnsweredIsToldOnce(t *testing.T) {
	for name, failed := range map[string]bool{"a failure": true, "a recovery": false} {
		for _, stood := range []time.Duration{time.Minute, 2 * time.Second} {
			for _, try := range []time.Duration{3 * time.Second, 7 * time.Second, 15 * time.Second, emitterTime} {
				t.Run(fmt.Sprintf("%s after %s, answered after %s", name, stood, try), func(t *testing.T) {
					restarted(t, kustomization{failed: failed}, func(t *testing.T, w *world, stop func()) {
						outcomes := []event.Outcome{event.OutcomeFailed, event.OutcomeSucceeded}
						if failed {
							slices.Reverse(outcomes)
						}
						pass(time.Minute)
						w.accept(postRecord(outcomes[0], "uid-1", "r1"))
						w.put(kustomization{failed: !failed})
						pass(stood)
						w.accept(postRecord(outcomes[1], "uid-1", "r1"))
						stop()
						pass(2 * time.Second)
						_, stop = w.replica(true)
						defer stop()
						pass(try - 2*time.Second)
						w.put(kustomization{failed: failed})
						pass(2 * time.Minute)
						w.wantTold()
					})
				})
			}
		}
	}
}

// Fails when a failure that follows another within a second, and which a POST told already, is published as well.
func TestAStateThatIsLeftForASecondIsToldOnce(t *testing.T) {
	led(t, func(t *testing.T, w *world) {
		w.put(kustomization{failed: true})
		w.accept(postRecord(event.OutcomeFailed, "uid-1", "r1"))
		pass(time.Second)
		w.put(kustomization{})
		pass(time.Second)
		w.put(kustomization{failed: true})
		pass(time.Minute)
		w.wantTold()
	})
}

// Fails when covers does not compare revisions.
func TestALatePostAboutTheLastRevisionDoesNotTellTheNext(t *testing.T) {
	led(t, func(t *testing.T, w *world) {
		w.put(kustomization{failed: true})
		pass(6 * time.Second)
		w.accept(postRecord(event.OutcomeFailed, "uid-1", "r1"))
		pass(time.Minute)
		w.put(kustomization{failed: true, revision: "r2"})
		pass(time.Minute)
		w.wantTold("failed app r1", "failed app r2")
		w.put(kustomization{failed: true, revision: "r3"})
		w.accept(postRecord(event.OutcomeFailed, "uid-1", "r3"))
		pass(time.Minute)
		w.wantTold("failed app r1", "failed app r2")
	})
}

// Fails when postOf keeps the event's texts uncut: a post is kept long after its event, and events are up to a megabyte.
func TestAPostKeepsNoMoreThanWhatItIsComparedBy(t *testing.T) {
	r := postRecord(event.OutcomeFailed, "uid-1", strings.Repeat("r", event.MaxRevision+1))
	r.Event.Message = strings.Repeat("y", 1<<20)
	if x := postOf(item{}, r); len(x.message) != event.MessageStart || x.revision != "" {
		t.Errorf("kept %d bytes of the message and %d of the revision", len(x.message), len(x.revision))
	}
	r = postRecord(event.OutcomeSucceeded, "uid-1", "r1")
	r.Event.Message = "applied"
	if x := postOf(item{}, r); x.message != "" || x.revision != "r1" {
		t.Errorf("kept message %q and revision %q of a success", x.message, x.revision)
	}
}

// helm-controller POSTs that it rolled back a failed upgrade, which stays a failure of the HelmRelease. Fails when that POST counts as a
// recovery: the failure that another POST told would be told again.
func TestARepairedFailureIsToldOnce(t *testing.T) {
	led(t, func(t *testing.T, w *world) {
		upgrade := postRecord(event.OutcomeFailed, "uid-1", "r2")
		upgrade.Event.Message = "upgrade failed: x"
		w.accept(upgrade)
		w.put(kustomization{failed: true, reconciling: true, revision: "r2", reason: "UpgradeFailed", message: "upgrade failed: x"})
		pass(2 * time.Second)
		rollback := postRecord(event.OutcomeSucceeded, "uid-1", "r1")
		rollback.Event.Reason = "RollbackSucceeded"
		rollback.Outcome = event.OutcomeOf(rollback.Event)
		w.accept(rollback)
		w.put(kustomization{failed: true, revision: "r2", reason: "RollbackSucceeded", message: "rolled back", fault: "upgrade failed: x"})
		pass(time.Minute)
		w.wantTold()
	})
}

// A controller POSTs an error of an object that stays Ready, such as a HelmRelease that has drifted. Fails when the next worker publishes a
// recovery.
func TestE6AnErrorThatNoStatusHadIsNotFollowedByARecovery(t *testing.T) {
	for _, reason := range []string{"DriftDetected", "ReconciliationDisabled"} {
		restarted(t, kustomization{}, func(t *testing.T, w *world, stop func()) {
			drift := postRecord(event.OutcomeFailed, "uid-1", "r1")
			drift.Event.Reason = reason
			w.accept(drift)
			pass(time.Minute)
			stop()
			defer w.next()()
			w.put(kustomization{unknown: true})
			w.put(kustomization{})
			pass(time.Minute)
			w.wantTold()
		})
	}
}
