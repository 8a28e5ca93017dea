package subscribe

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// lap is the duration of one round of a test's loop.
const lap = 5 * time.Second

// loop sends an event of an object after each trigger, as a Receiver's own target would, and returns the number of triggers.
func (s *stage) loop(object string, rounds int) (triggers int) {
	s.t.Helper()
	for range rounds {
		triggers += s.must(object) + s.wait(lap)
	}
	return triggers
}

// Fails when rounds are not counted, when an eleventh triggers, or when the report is missing.
func TestALoopStopsAfterTenRoundsAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, subscription("team/r"), subscription("team/well"))
		s.table.namespaces["team"].named["well"].Sources[0].Name = "other"
		defer s.run()()
		if n := s.loop("ImagePolicy/app", loopRounds); n != loopRounds || s.looping("team/r") {
			t.Fatalf("%d triggers in the first %d rounds, looping %v", n, loopRounds, s.looping("team/r"))
		}
		if n := s.must("ImagePolicy/app"); n != 0 || !s.looping("team/r") {
			t.Errorf("%d triggers in the next, looping %v", n, s.looping("team/r"))
		}
		if n := s.must("ImagePolicy/third"); n != 0 {
			t.Errorf("another object triggers a Receiver that is held: %d", n)
		}
		if n := s.must("ImagePolicy/other"); n != 1 {
			t.Errorf("a Receiver that does not loop got %d triggers", n)
		}
		s.counts(map[string]float64{eventTriggered: loopRounds + 1, eventHeld: 3})
		message := Loop{Looping: true, Kind: "ImagePolicy", Object: "app", Pause: time.Minute}.Message()
		for _, want := range []string{`ImagePolicy "app"`, "10 triggers", "1m0s", "spec.eventSources", "spec.events"} {
			if !strings.Contains(message, want) {
				t.Errorf("%q does not mention %q", message, want)
			}
		}
	})
}

// The documented bound: a loop triggers ten times, and then once after 1, 2, 4, 8, 8, … minutes. Fails when a trigger that causes another
// event does not make the pause longer, or makes it longer than maxLoopPause.
func TestALoopThatGoesOnTriggersOnceInEightMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, subscription("team/r"))
		defer s.run()()
		s.loop("ImagePolicy/app", loopRounds)
		s.must("ImagePolicy/app")
		for _, pause := range []time.Duration{1, 2, 4, 8, 8, 8} {
			if n := s.wait(pause*time.Minute - 2*clockTick); n != 0 {
				t.Fatalf("%d triggers within %d minutes", n, pause)
			}
			if n := s.wait(3 * clockTick); n != 1 {
				t.Fatalf("%d triggers after %d minutes", n, pause)
			}
			s.wait(lap)
			if n := s.must("ImagePolicy/app"); n != 0 || !s.looping("team/r") { // it causes another event
				t.Fatalf("the trigger's own event triggered %d times, looping %v", n, s.looping("team/r"))
			}
		}
	})
}

// Invariant E2: at the end of a busy time its last state triggers, and then all is as before. Fails when due does not trigger, or does not
// end.
func TestEventsHeldBackTriggerOnceAndTheLoopEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, subscription("team/r"))
		defer s.run()()
		s.loop("ImagePolicy/app", loopRounds)
		for range 3 {
			s.must("ImagePolicy/app")
		}
		if n := s.wait(minLoopPause + clockTick); n != 1 {
			t.Errorf("%d triggers after the pause", n)
		}
		if s.wait(loopWindow - 2*lap); !s.looping("team/r") {
			t.Error("the loop ended before its trigger could come back")
		}
		if n := s.wait(4 * lap); n != 0 || s.looping("team/r") {
			t.Errorf("%d triggers more, looping %v", n, s.looping("team/r"))
		}
		if n := s.loop("ImagePolicy/app", loopRounds); n != loopRounds {
			t.Errorf("%d triggers in %d rounds afterwards", n, loopRounds)
		}
		s.counts(map[string]float64{eventTriggered: 2 * loopRounds, eventHeld: 3, eventResumed: 1})
	})
}

// Fails when rounds are counted by Receiver rather than by object, when every event counts as a round, or when any time may be between
// rounds.
func TestABusySourceIsNoLoop(t *testing.T) {
	for name, play := range map[string]func(s *stage){
		"very many objects tell once": func(s *stage) {
			for i := range 600 {
				s.must(fmt.Sprint("ImagePolicy/app-", i))
				elapse(100 * time.Millisecond)
			}
		},
		"one object tells much of one round": func(s *stage) {
			for i := range 50 {
				s.must("ImagePolicy/app")
				elapse(time.Duration(10+i/10) * time.Millisecond)
			}
		},
		"one object tells less than once a minute, and others between": func(s *stage) {
			for i := range 50 {
				s.must("ImagePolicy/app")
				elapse(loopWindow/2 + time.Second)
				s.must(fmt.Sprint("ImagePolicy/app-", i))
				elapse(loopWindow / 2)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, subscription("team/r"))
				defer s.run()()
				if play(s); s.looping("team/r") {
					t.Error("taken for a loop")
				}
			})
		})
	}
}

// Fails when a guard outlives its generation, or when succeed does not trigger for delayed events.
func TestAChangeOfTheSpecEndsTheLoop(t *testing.T) {
	for name, suspend := range map[string]bool{"an edit": false, "a suspension": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, subscription("team/r"))
				defer s.run()()
				s.loop("ImagePolicy/app", loopRounds+1)
				same := subscription("team/r")
				if err := s.table.Put(same); err != nil {
					t.Fatal(err)
				}
				if n := s.wait(3 * clockTick); n != 0 || !s.looping("team/r") {
					t.Errorf("compiling the same spec again: %d triggers, looping %v", n, s.looping("team/r"))
				}
				edited := subscription("team/r")
				edited.Generation, edited.Suspended = 2, suspend
				if err := s.table.Put(edited); err != nil {
					t.Fatal(err)
				}
				want := 1
				if suspend {
					want = 0
				}
				if n := s.wait(3 * clockTick); n != want || s.looping("team/r") {
					t.Errorf("%d triggers, want %d, looping %v", n, want, s.looping("team/r"))
				}
			})
		})
	}
}

// Invariant E2: events that were delayed when the process ended are triggered by the next worker. Fails when restore does not read the
// reports, or when handle returns before the report is stored.
func TestTheNextOwnerTriggersForWhatWasHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, subscription("team/r"))
		stop := s.run()
		s.loop("ImagePolicy/app", loopRounds)
		full := errors.New("full")
		s.failWith(full)
		r := about("ImagePolicy/app")
		if err := s.tell(r); !errors.Is(err, full) {
			t.Errorf("an event was acknowledged that is held back nowhere: %v", err)
		}
		s.failWith(nil)
		if err := s.again(r); err != nil || !s.looping("team/r") {
			t.Errorf("looping %v, error %v", s.looping("team/r"), err)
		}
		stop()
		s.wait(time.Hour)

		defer s.run()()
		if n := s.must("ImagePolicy/app"); n != 0 {
			t.Errorf("%d triggers before the pause is over", n)
		}
		if n := s.wait(minLoopPause + clockTick); n != 1 {
			t.Errorf("%d triggers after the pause", n)
		}
	})
}

// Fails when a deleted Receiver keeps its guard or its report, now or over a restart.
func TestNothingIsLeftOfAReceiverThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, subscription("team/r"), subscription("team/q"))
		stop := s.run()
		s.loop("ImagePolicy/app", loopRounds+1)
		s.table.Delete("team", "r")
		s.wait(2 * clockTick)
		if _, kept := s.reports[LoopPrefix+"team/r"]; kept || !s.looping("team/q") {
			t.Errorf("reports %v", s.reports)
		}
		stop()
		s.table.Delete("team", "q")
		defer s.run()()
		s.wait(2 * clockTick)
		if len(s.reports) != 0 {
			t.Errorf("reports %v", s.reports)
		}
	})
}

// guarded returns a watch that has a guard for a Receiver of the stage's table.
func guarded(t *testing.T) (s *stage, w *watch, id subscriber) {
	s, id = newStage(t, subscription("team/r")), subscriber{"team", "r"}
	return s, &watch{
		Subscriber: &Subscriber{Options: Options{Subscriptions: s.table}}, reports: map[subscriber][]byte{},
		guards: map[subscriber]*guard{id: newGuard(s.table.namespaces["team"].named["r"].Subscription)},
	}, id
}

// Memory is bounded by the Receivers with recent events. Fails when guards are not removed.
func TestAGuardIsForgottenWhenAllIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, w, id := guarded(t)
		w.guards[id].last = time.Now()
		for _, want := range []int{1, 0} {
			if err := w.passTime(t.Context()); err != nil || len(w.guards) != want {
				t.Errorf("%d guards, want %d, error %v", len(w.guards), want, err)
			}
			elapse(loopWindow + time.Second)
		}
	})
}

// T6: fails when the guard of a deleted Receiver stays, for which no event comes any more that would make it quiet.
func TestT6AGuardEndsWithItsReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w, id := guarded(t)
		w.guards[id].held = true // it would never be quiet
		s.table.Delete("team", "r")
		err := w.passTime(event.WithFence(t.Context(), func() bool { return false }))
		if !errors.Is(err, errTermOver) || len(w.guards) != 0 {
			t.Errorf("%d guards, error %v", len(w.guards), err)
		}
		if value, there := w.reports[id]; !there || value != nil {
			t.Errorf("its report is not removed: %q", w.reports)
		}
	})
}
