package watch

import (
	"testing"
	"time"

	"notifier/internal/event"
)

// E4: the object stays in its state for as long as a POST of the next one is waited for, and enters that only after the bus has refused the
// event of the state. Fails when this event is published once the bus takes it, after the POST; or when it is not though the object stays, or
// though it was stored and the answer lost, so that the return from the state is not told.
func TestE4AStateThatAPostDisputedAndTheBusRefusedIsNotPublishedOnceItIsLeft(t *testing.T) {
	for name, tc := range map[string]struct {
		then, in []kustomization // as the bus is away, and after that
		stored   bool
		want     []string
	}{
		"the object recovers":                 {then: []kustomization{{}}},
		"the object is at work, and recovers": {then: []kustomization{{unknown: true}}, in: []kustomization{{}}},
		"the object is at work, and fails anew": {
			then: []kustomization{{unknown: true}}, in: []kustomization{{failed: true}}, want: []string{"failed app r1"},
		},
		"the object stays as it is": {want: []string{"failed app r1"}},
		"the event is stored":       {then: []kustomization{{}}, stored: true, want: []string{"failed app r1", "succeeded app r1"}},
	} {
		t.Run(name, func(t *testing.T) {
			led(t, func(t *testing.T, w *world) {
				w.bus.setRefusing(!tc.stored)
				if tc.stored {
					w.bus.loseAnswers = 1
				}
				w.put(kustomization{failed: true})
				pass(4 * time.Second)
				w.accept(postRecord(event.OutcomeSucceeded, "uid-1", "r1"))
				pass(settleTime + time.Millisecond)
				w.bus.setFail(true)
				for _, k := range tc.then {
					w.put(k)
				}
				pass(2 * maxWait)
				w.bus.setRefusing(false)
				w.bus.setFail(false)
				pass(time.Minute)
				for _, k := range tc.in {
					w.put(k)
				}
				pass(time.Minute)
				w.wantTold(tc.want...)
			})
		})
	}
}

// E3, E6: the answer to an event is lost, and another event of the object comes before the next attempt, which comes after the stream has
// forgotten the event's ID. Fails when the event is then published again; or when it counts as refused, so that the return from its state is
// not told.
func TestAnEventWithoutAnAnswerIsStoredThoughAnotherFollowedIt(t *testing.T) {
	for name, tc := range map[string]struct {
		then kustomization
		lag  time.Duration
		want []string
	}{
		"the object stays as it is":                             {then: kustomization{failed: true}, want: []string{"failed app r1"}},
		"the object recovers":                                   {want: []string{"failed app r1", "succeeded app r1"}},
		"the object stays as it is, and the follower is behind": {then: kustomization{failed: true}, lag: time.Second, want: []string{"failed app r1"}},
		"the object recovers, and the follower is behind":       {lag: time.Second, want: []string{"failed app r1", "succeeded app r1"}},
	} {
		t.Run(name, func(t *testing.T) {
			led(t, func(t *testing.T, w *world) {
				w.bus.loseAnswers, w.bus.lag = 1, tc.lag
				w.put(kustomization{failed: true})
				pass(settleTime + time.Millisecond)
				w.accept(postRecord(event.OutcomeNone, "uid-1", "r1"))
				w.put(tc.then)
				pass(time.Minute)
				w.wantTold(tc.want...)
			})
		})
	}
}
