package alerts

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
	"notifier/internal/event/view"
)

// TestATestMessageGoesTheWayOfADelivery fails when it is given up for lack of an Alert, when a value is served twice, also at once and
// over a restart, or when it is reported as an Alert's.
func TestATestMessageGoesTheWayOfADelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &refusing{}
		dest.mended.Store(true)
		w.version("chat", "1", dest)
		d, _, stop := w.start()
		ask := func(value string) string {
			t.Helper()
			r, err := d.Test(t.Context(), "team-a", view.TestRequest{Provider: "chat", Value: value})
			if err != nil {
				t.Fatal(err)
			}
			return r.DeliveryID
		}
		first := ask("one")
		if again := ask("one"); again != first {
			t.Errorf("another ID for one value: %s, %s", first, again)
		}
		wait(5 * time.Minute)
		stop()
		d, _, stop = w.start()
		ask("one")
		second := ask("two")
		wait(5 * time.Minute)
		if got := dest.ids(); !slices.Equal(got, []string{first, second}) {
			t.Fatalf("sent %v", got)
		}
		e := dest.got[0].Event
		if e.InvolvedObject.Kind != "Provider" || e.InvolvedObject.Name != "chat" || e.Reason != "Test" || e.Severity != "info" || dest.got[0].Replayed {
			t.Errorf("%+v", dest.got[0])
		}
		dest.mended.Store(false)
		third := ask("three")
		wait(5 * time.Minute)
		if dead := w.bus.deadLetters(); len(dead) != 1 || dead[0].d.ID != third || !dead[0].d.Test || !w.bus.empty() {
			t.Errorf("%+v", dead)
		}
		for key, a := range w.notes.ledger.accounts {
			if key.name == "" || a.is.Loss.Count > 0 {
				t.Errorf("known of %v: %+v", key, a.is)
			}
		}
		for _, e := range w.notes.recorded() {
			if !strings.HasPrefix(e, "Provider/team-a/chat") {
				t.Errorf("recorded %s", e)
			}
		}
		if len(w.notes.recorded()) == 0 {
			t.Error("nobody is told that the test failed")
		}
		stop()
	})
}

// TestATestThatCannotBeSentSaysWhy fails when untestable leaves a rule out, or when tests have no rate.
func TestATestThatCannotBeSentSaysWhy(t *testing.T) {
	commits := func(n provider.Notification) bool { return provider.TakesCommits(n) }
	for why, dest := range map[string]*Destination{
		"is suspended":            {UID: "p", Sender: &sink{}, Suspended: true},
		"is not supported":        {UID: "p", Unsupported: true},
		"no Secret":               {UID: "p", NotReady: "no Secret"},
		"only events about":       {UID: "p", Sender: &sink{}, Takes: commits},
		"longer than 256 bytes":   {UID: "p", Sender: &sink{}},
		view.ErrNotFound.Error():  nil,
		"ask again in 10 seconds": {UID: "p", Sender: &sink{}},
	} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				if dest != nil {
					w.destinations.Put("team-a", "chat", dest)
				}
				d, _, stop := w.start()
				defer stop()
				r := view.TestRequest{Provider: "chat", Value: "1"}
				if strings.HasPrefix(why, "longer") {
					r.Value = strings.Repeat("x", maxTestValue+1)
				}
				if strings.HasPrefix(why, "ask again") {
					for i := range requestBurst {
						if _, err := d.Test(t.Context(), "team-a", view.TestRequest{Provider: "chat", Value: fmt.Sprint(-i)}); err != nil {
							t.Fatal(err)
						}
					}
				}
				_, err := d.Test(t.Context(), "team-a", r)
				if _, told := errors.AsType[*event.Error](err); err == nil || !strings.Contains(err.Error(), why) || !told && dest != nil {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// TestATestIsForTheProviderThatItWasAskedOf fails when a Provider that was made anew gets its predecessor's test.
func TestATestIsForTheProviderThatItWasAskedOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.destinations.Put("team-a", "chat", &Destination{UID: "before", Sender: dest})
		d, _, stop := w.start()
		w.bus.faults = func(op string) error {
			if op == "replay" {
				w.destinations.Put("team-a", "chat", &Destination{UID: "after", Sender: dest})
			}
			return nil
		}
		if _, err := d.Test(t.Context(), "team-a", view.TestRequest{Provider: "chat", Value: "1"}); err != nil {
			t.Fatal(err)
		}
		wait(5 * time.Minute)
		stop()
		if dead := w.bus.deadLetters(); dest.count() != 0 || len(dead) != 1 || dead[0].label != labelOwnerGone {
			t.Errorf("sent %v, %+v", dest.ids(), dead)
		}
	})
}
