package subscribe

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// losing returns the error of every publish.
func (s *stage) losing() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// lose sets the error of every publish, and the namespace that has too many triggers.
func (s *stage) lose(err error, overQuota string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost, s.overQuota = err, overQuota
}

var errLost = errors.New("no answer")

// edited returns the next version of a subscription, with another target.
func edited(s *Subscription) *Subscription {
	later := *s
	later.Generation++
	later.Targets = slices.Clone(s.Targets)
	later.Targets[0].Generation, later.Targets[0].Key = later.Generation, "key-edited"
	return &later
}

func (s *stage) put(sub *Subscription) {
	s.t.Helper()
	if err := s.table.Put(sub); err != nil {
		s.t.Fatal(err)
	}
}

// pending begins with an event whose trigger the bus does not answer, puts a later state of its Receiver, and has the bus be full for the
// trigger.
func (s *stage) pending(later *Subscription) {
	s.t.Helper()
	s.lose(errLost, "")
	r := about("ImagePolicy/app")
	if err := s.tell(r); err == nil {
		s.t.Fatal("the trigger is stored")
	}
	s.put(later)
	s.wait(2 * clockTick)
	s.lose(nil, "team")
	if err := s.again(r); err != nil {
		s.t.Fatal(err)
	}
	s.wait(clockTick / 2)
}

// T4: a trigger that waits for the bus finds it full, and its Receiver was edited meanwhile. Fails when it is held as the trigger of the
// earlier version: those are dropped, and nothing triggers for the event, which is acknowledged.
func TestT4AnEventFromBeforeAnEditTriggersWhenThereIsRoom(t *testing.T) {
	for name, restarted := range map[string]bool{"one worker": false, "the next worker": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sub := subscription("team/r")
				s := newStage(t, sub)
				stop := s.run()
				defer func() { stop() }()
				s.pending(edited(sub))
				if restarted {
					stop()
					stop = s.run()
				}
				s.lose(nil, "")
				if n := s.wait(time.Minute); n != 1 || s.bus.Published[0].Key != "key-edited" {
					t.Errorf("%d triggers: %+v", n, s.bus.Published)
				}
			})
		})
	}
}

// Invariant E1: the same, and the Receiver was deleted, and another made under its name, perhaps by another tenant. Fails when the trigger
// of the deleted one is held: the next worker would trigger the other one for it.
func TestE1ATriggerThatWaitedIsHeldForNoLaterReceiverOfTheName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, subscription("team/r"))
		stop := s.run()
		later := subscription("team/r")
		later.UID, later.Targets[0].ReceiverUID = "another", "another"
		s.pending(later)
		stop()
		defer s.run()()
		s.lose(nil, "")
		if n := s.wait(time.Minute); n != 0 {
			t.Errorf("%d triggers: %+v", n, s.bus.Published)
		}
	})
}

// T4: what was held back triggers after an edit, but the bus does not take the trigger before the term ends. Fails when the report says before
// that nothing is held back: the next worker triggers nothing.
func TestT4WhatWasHeldBackIsReportedUntilItsTriggerIsStored(t *testing.T) {
	for name, hold := range map[string]func(*stage){
		"in a loop": func(s *stage) { s.loop("ImagePolicy/app", loopRounds+1) },
		"no room": func(s *stage) {
			s.lose(nil, "team")
			s.must("ImagePolicy/app")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sub := subscription("team/r")
				s := newStage(t, sub)
				stop := s.run()
				hold(s)
				s.lose(errLost, "")
				s.put(edited(sub))
				s.wait(5 * clockTick)
				stop()
				s.lose(nil, "")
				before := s.bus.Count()
				defer s.run()()
				s.wait(time.Minute)
				if !slices.ContainsFunc(s.bus.Published[before:], func(t event.Trigger) bool { return t.Key == "key-edited" }) {
					t.Errorf("nothing was triggered, the reports are %v", s.reports)
				}
			})
		})
	}
}

// T4: a worker is cut off as it reports that nothing is held back, and that is stored when its successor has reported that something is. Fails
// when the successor's report is not stored again: the next worker triggers nothing.
func TestT4AReportThatIsStoredLateIsReplaced(t *testing.T) {
	for name, stored := range map[string]string{"nothing is held": `{"uid":"uid-r","generation":1,"looping":false}`, "removed": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sub := subscription("team/r")
				sub.Targets[0].Generation = sub.Generation
				s := newStage(t, sub)
				stop := s.run()
				s.lose(nil, "team")
				s.must("ImagePolicy/app")
				var late []byte
				if stored != "" {
					late = []byte(stored)
				}
				s.store(LoopPrefix+"team/r", late)
				s.wait(2 * clockTick)
				stop()
				s.lose(nil, "")
				defer s.run()()
				if n := s.wait(time.Minute); n != 1 {
					t.Errorf("%d triggers, the reports are %v", n, s.all())
				}
			})
		})
	}
}

// Fails when what a worker before held back stays in the status of a Receiver, and when the report about one that is gone stays.
func TestAReportOfAWorkerBeforeIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, subscription("team/r"))
		defer s.run()()
		for _, name := range []string{"r", "gone"} {
			s.store(LoopPrefix+"team/"+name, []byte(`{"uid":"uid-r","generation":1,"held":true,"looping":false}`))
		}
		s.wait(2 * clockTick)
		if got, _ := s.get(LoopPrefix + "team/r"); len(s.all()) != 1 || strings.Contains(got, "held") {
			t.Errorf("the reports are %v", s.all())
		}
	})
}
