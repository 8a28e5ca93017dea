package subscribe

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// targeting returns a subscription with so many targets.
func targeting(key string, targets int) *Subscription {
	s := subscription(key)
	one := s.Targets[0]
	s.Targets = make([]event.Trigger, targets)
	for i := range s.Targets {
		s.Targets[i] = one
		s.Targets[i].Key, s.Targets[i].Generation = fmt.Sprint(one.Key, "-", i), s.Generation
	}
	return s
}

// Invariant T6: the events of all namespaces have one reader, which waits until the triggers of a batch are stored. Fails when fits admits
// everything: a thousand Receivers of 512 targets make half a million triggers of one event.
func TestT6WhatOneEventCostsIsBounded(t *testing.T) {
	labels := map[string]string{}
	for i := range 32 {
		labels[fmt.Sprint("l", i)] = ""
	}
	for name, change := range map[string]func(*Subscription){
		"targets": func(s *Subscription) { s.Targets = targeting("team/r", 512).Targets },
		"labels": func(s *Subscription) {
			s.Sources = slices.Repeat([]EventSource{{Kind: "ImagePolicy", Name: "*", MatchLabels: labels}}, 64)
		},
		"Receivers": func(*Subscription) {},
	} {
		t.Run(name, func(t *testing.T) {
			table, served := NewSubscriptions(), 0
			put := func(i int) error {
				s := subscription(fmt.Sprint("team/r", i))
				change(s)
				return table.Put(s)
			}
			for ; served < 1000; served++ {
				if err := put(served); err != nil {
					if !errors.Is(err, ErrNamespaceFull) {
						t.Fatal(err)
					}
					break
				}
			}
			work, targets := 0, 0
			for _, s := range table.namespaces["team"].awake {
				work, targets = work+s.work(), targets+len(s.Targets)
			}
			if served == 0 || served == 1000 || work > maxWork || targets > maxTargets {
				t.Errorf("%d are served, of work %d with %d targets", served, work, targets)
			}
			if table.Put(targeting("other/r", 512)) != nil {
				t.Error("another namespace has no room")
			}
			// An edit of one that is served needs no more room, and one that is gone makes room, in every way that one may go.
			for i, leave := range []func(){
				func() { table.Delete("team", "r0") },
				func() {
					s := subscription("team/r0")
					s.Suspended = true
					_ = table.Put(s)
				},
			} {
				if put(0) != nil && i == 0 {
					t.Error("an edit is refused")
				}
				if leave(); put(1000+i) != nil {
					t.Error("no room is made")
				}
				table.Delete("team", fmt.Sprint("r", 1000+i))
			}
		})
	}
}

// Fails when each event of a batch makes the same triggers anew, of which a Receiver may have hundreds.
func TestT6ABatchMakesTheTriggersOfAReceiverOnce(t *testing.T) {
	s := newStage(t, targeting("team/r", 512))
	subscriber, err := New(s.options())
	if err != nil {
		t.Fatal(err)
	}
	w := subscriber.begin()
	for i, want := range []int{512, 0} {
		w.evaluate(about(fmt.Sprint("ImagePolicy/app-", i)), time.Now())
		if n := len(w.triggers); n != want {
			t.Errorf("event %d makes %d triggers, want %d", i, n, want)
		}
		clear(w.triggers)
	}
	if n := len(w.outcomes); n != 2 {
		t.Errorf("%d outcomes, want that of each event", n)
	}
}

// exceed makes the bus take no triggers of a namespace.
func (s *stage) exceed(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.overQuota = namespace
}

func (s *stage) isOverQuota(namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.overQuota == namespace
}

// Invariant T6: a namespace with too many triggers on the bus does not hold up the events of the others, and has its own when there is room.
// Fails when its refusal is an error of the batch, or when what is refused is dropped or kept for a Receiver that is gone.
func TestT6ANamespaceWithTooManyTriggersHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, targeting("team/many", 100), targeting("team/gone", 1), subscription("other/r"))
		s.exceed("team")
		defer s.run()()
		other := about("ImagePolicy/app")
		other.Event.InvolvedObject.Namespace = "other"
		for range 2 {
			if err := s.tell(about("ImagePolicy/app"), other); err != nil {
				t.Fatal(err)
			}
		}
		if n := s.bus.Count(); n < 2 || slices.ContainsFunc(s.bus.Published, func(t event.Trigger) bool { return t.Namespace == "team" }) {
			t.Errorf("%d triggers are stored, want the other namespace's of both batches", n)
		}
		s.table.Delete("team", "gone")
		if n := s.wait(5 * time.Second); n != 0 {
			t.Errorf("%d are stored of a namespace without room", n)
		}
		s.exceed("")
		if n := s.wait(5 * time.Second); n != 100 {
			t.Errorf("%d are stored once there is room, want the 100 of the Receiver that is still there", n)
		}
	})
}

func (s *stage) failWith(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

func (s *stage) failReports(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = err
}

// Invariant T4: an event whose triggers have no room on the bus is acknowledged, so they must outlive the worker. Fails when they are kept in
// memory alone, when the event is acknowledged before that is recorded, or when they are published again at each start.
func TestT4TriggersWithoutRoomOutliveTheWorker(t *testing.T) {
	for name, change := range map[string]func(*Subscription){
		"the same Receiver": func(*Subscription) {},
		"an edited one": func(s *Subscription) {
			s.Generation, s.Targets = 2, s.Targets[:50]
			for i := range s.Targets {
				s.Targets[i].Generation = 2
			}
		},
		"a suspended one": func(s *Subscription) { s.Generation, s.Suspended = 2, true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, targeting("team/many", 100))
				s.exceed("team")
				stop := s.run()
				r, full := about("ImagePolicy/app"), errors.New("full")
				s.failReports(full)
				if err := s.tell(r); !errors.Is(err, full) {
					t.Errorf("an event was acknowledged whose triggers are in memory alone: %v", err)
				}
				s.failReports(nil)
				if err := s.again(r); err != nil {
					t.Fatal(err)
				}
				stop()
				now := targeting("team/many", 100)
				change(now)
				if err := s.table.Put(now); err != nil {
					t.Fatal(err)
				}
				want := len(now.Targets)
				if now.Suspended {
					want = 0
				}

				stop = s.run()
				if n := s.wait(5 * time.Second); n != 0 {
					t.Errorf("%d are stored of a namespace without room", n)
				}
				s.exceed("")
				if n := s.wait(5 * time.Second); n != want {
					t.Errorf("%d are stored once there is room, want %d", n, want)
				}
				stop()
				defer s.run()()
				if n := s.wait(5 * time.Second); n != 0 {
					t.Errorf("%d are stored again at the next start", n)
				}
			})
		})
	}
}
