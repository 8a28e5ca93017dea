package alerts

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/registry"
	"notifier/internal/event"
)

// Fails when a suspended Provider of some type is sent deliveries that were routed before, or when events of the time of its suspension
// are routed to it; and when the same would not be sent without the suspension.
func TestASuspendedProviderOfEveryTypeSendsNothing(t *testing.T) {
	// The failure of a pull request's commit, which every type takes, with its metadata as given to the router and as returned by it.
	failureOf := func(prefix string, e *event.Event) {
		e.Severity = event.SeverityError
		e.Metadata = map[string]string{
			prefix + provider.CommitKey: "sha1:" + strings.Repeat("c0ffee00", 5), prefix + provider.ChangeRequestKey: "7",
		}
	}
	for _, typ := range registry.Types() {
		for _, suspended := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				dest := &sink{}
				d := &Destination{UID: "p-chat", Type: typ, Sender: dest, Takes: registry.Takes(typ), Suspended: suspended}

				w := newWorld(t)
				w.destinations.Put("team-a", "chat", d)
				waiting := w.delivery("chat", "app")
				failureOf("", &waiting.Event)
				w.bus.publish(waiting)
				_, stop := w.run()
				wait(time.Second)
				stop()
				dead := w.bus.deadLetters()
				if sent := dest.count() == 1; sent == suspended || (len(dead) == 1 && dead[0].label == labelSuspended) != suspended {
					t.Errorf("%s, suspended %v: %d sent, dead letters %+v", typ, suspended, dest.count(), dead)
				}

				r := newRouted(t)
				r.put(t, spec(nil))
				r.destinations.Put("team-a", "chat", d)
				if err := r.route(t.Context(), []*event.Record{recordOf(func(rec *event.Record) { failureOf("kustomize.toolkit.fluxcd.io/", &rec.Event) })}); err != nil {
					t.Fatal(err)
				}
				if routed := len(r.events.published) == 1; routed == suspended {
					t.Errorf("%s, suspended %v: routed %v", typ, suspended, routed)
				}
			})
		}
	}
}

// Fails when a Provider that is suspended, or was, is reported to refuse deliveries: once it is resumed, nothing would take that back until
// the next event.
func TestASuspensionIsNoFaultOfTheDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.destination("chat", dest)
		_, stop := w.run()
		w.bus.publish(w.delivery("chat", "app"))
		wait(time.Minute)
		for _, suspended := range []bool{true, false} {
			w.destinations.Put("team-a", "chat", &Destination{UID: "p-chat", Type: "generic", Sender: dest, Suspended: suspended})
			wait(time.Minute)
			if told := w.notes.standings("Provider/team-a/chat"); told[len(told)-1].Health.State != StateOK {
				t.Errorf("suspended %v: %+v", suspended, told[len(told)-1].Health)
			}
		}
		stop()
	})
}
