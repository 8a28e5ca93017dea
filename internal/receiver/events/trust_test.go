package events

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
	"notifier/internal/receiver/limit"
)

// changing stands for a watchers' cache of one Kustomization whose state a test changes.
type changing struct{ event.Object }

func (c *changing) Pending(string) bool { return false }

func (c *changing) Lookup(kind, namespace, name string) (event.Object, bool) {
	o, ok := cache{}.Lookup(kind, namespace, name)
	o.Outcome, o.Version = c.Outcome, c.Version
	return o, ok
}

// E9: of the POSTs with the true UID that contradict the object's state one is believed, until the state changes. Those that agree with it,
// or arrive while it is reconciled, are believed unless they are very many. Fails when doubts ignores the outcome or the version, when a
// POST that was not stored uses up belief, or when take does not call doubts.
func TestE9OfPOSTsThatContradictTheObjectOneIsBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		object, bus := &changing{event.Object{Outcome: event.OutcomeSucceeded, Version: "1"}}, &eventLog{}
		h := newEvents(t, bus, func(o *Options) { o.Objects = object })
		n := 0
		post := func(severity string, want int) (doubted bool) {
			t.Helper()
			n++
			resp := do(h, post(posted(func(e *event.Event) { e.Severity, e.Message = severity, fmt.Sprint("text ", n) })))
			if resp.StatusCode != want {
				t.Fatalf("answered %d", resp.StatusCode)
			}
			if want != http.StatusAccepted {
				return false
			}
			last := bus.records[len(bus.records)-1]
			if !last.Known {
				t.Error("a POST with the object's UID is of no known object")
			}
			return last.Doubted
		}
		expect := func(severity string, want bool, why string) {
			t.Helper()
			if got := post(severity, http.StatusAccepted); got != want {
				t.Errorf("%s: doubted %v", why, got)
			}
		}
		expect("info", false, "what the state says")
		bus.err = errors.New("away")
		post("error", http.StatusServiceUnavailable)
		bus.err = nil
		expect("error", false, "the first to contradict it, that was not stored before")
		expect("error", true, "the second")
		object.Version = "2"
		expect("error", false, "the first after a change")
		expect("error", true, "the second after it")
		object.Outcome, object.Version = event.OutcomeFailed, "3"
		expect("error", false, "what the state says by now")
		object.Outcome, object.Version = event.OutcomeNone, "4"
		expect("error", false, "while it is reconciled")
		expect("info", false, "while it is reconciled")
		<-time.After(aheadTime)
		object.Outcome = event.OutcomeSucceeded
		for range objectBurst {
			expect("info", false, "what the state says")
		}
		expect("info", true, "beside very many")
	})
}

// E9: a flood of POSTs with the true UID leaves capacity for the genuine one. Fails when doubted events have the budget of the others.
func TestE9DoubtedPOSTsHaveABudgetOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		object := &changing{event.Object{Outcome: event.OutcomeSucceeded, Version: "1"}}
		h := newEvents(t, &eventLog{}, func(o *Options) {
			o.Objects, o.Namespace = object, limit.Budget{Rate: 1, Burst: 3}
		})
		send := func(severity, message string) int {
			return do(h, post(posted(func(e *event.Event) { e.Severity, e.Message = severity, message }))).StatusCode
		}
		for i := range 10 {
			send("error", fmt.Sprint("forged ", i))
		}
		if got := send("info", "genuine"); got != http.StatusAccepted {
			t.Errorf("answered %d", got)
		}
	})
}
