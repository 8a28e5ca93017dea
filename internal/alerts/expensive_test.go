package alerts

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/filter"
	"notifier/internal/event"
)

// T6: an owner is shown that the patterns of an Alert are not all evaluated. Fails when a namespace with very many such Alerts leaves no place
// for those of another one, or when they are remembered after they are in time again.
func TestT6TheExpensiveAlertsOfANamespaceHideNoOthers(t *testing.T) {
	table, now := NewTable(), time.Now()
	l := NewLedger(table, NewDestinations())
	const many = 1000 // as are served by default
	cut := func(namespace, name string) {
		a := compiled(t, AlertSpec{Namespace: namespace, Name: name, UID: name, Provider: "chat"})
		table.Put(a)
		for range 2 {
			l.cutShort(a, now)
		}
	}
	for i := range many {
		cut("many", fmt.Sprint("alert-", i))
	}
	cut("team-a", "alert")
	for _, tc := range []struct {
		after time.Duration
		want  string
	}{{0, ReasonPatternsTimed}, {2 * filter.Window, ReasonPatternsInTime}} {
		told, _, _ := l.publish(now.Add(tc.after))
		for _, key := range told {
			if is := l.Get(key.kind, key.namespace, key.name); is.Health.Reason != tc.want {
				t.Fatalf("after %s %s/%s: %+v", tc.after, key.namespace, key.name, is.Health)
			}
		}
		if len(told) != many+1 {
			t.Errorf("after %s %d Alerts are reported", tc.after, len(told))
		}
	}
	if len(l.expensive) != 0 {
		t.Errorf("%d Alerts are remembered for nothing", len(l.expensive))
	}
}

// Fails when cutShort does not report, when an Alert is never in time again, or when it is though another event was cut short meanwhile.
func TestPatternsOverBudgetShowOnTheAlertUntilTheyAreInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRouted(t)
		clock := &ticking{now: time.Unix(0, 0), step: 250 * time.Millisecond} // half of the time of an event
		r.budget = filter.NewBudget(1, clock.look)
		r.put(t, spec(func(s *AlertSpec) { s.Exclusion = []string{"a[a-z]{5,50}y"} }))
		long := recordOf(func(r *event.Record) { r.Event.Message = strings.Repeat("x", filter.MaxText) })
		route := func() {
			if err := r.route(t.Context(), []*event.Record{long, long}); err != nil {
				t.Fatal(err)
			}
		}
		route()
		route()
		if n := len(r.events.published); n != 4 {
			t.Errorf("%d of 4 passed", n)
		}
		if is := r.notes.ledger.accounts[objectName{kindAlert, "team-a", "alert"}].is.Health; is.Reason != ReasonPatternsTimed || is.State != StateFailing {
			t.Errorf("when the time is over %+v", is)
		}
		pass(filter.Window - time.Second)
		route()
		pass(filter.Window - time.Second)
		r.notes.ledger.publish(time.Now())
		if is := r.notes.ledger.Get(kindAlert, "team-a", "alert").Health; is.Reason != ReasonPatternsTimed {
			t.Errorf("before a window is over %+v", is)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go r.notes.ledger.Follow(ctx, func(string, string, string) {}, func() {})
		pass(time.Second + followPause)
		synctest.Wait()
		if is := r.notes.ledger.accounts[objectName{kindAlert, "team-a", "alert"}].is.Health; is.Reason != ReasonPatternsInTime || is.State != StateOK {
			t.Errorf("in the end %+v", is)
		}
	})
}

// Fails when the health of an Alert whose patterns take too long is not reported because it was before the Alert was made anew, or before
// another term began.
func TestPatternsOverBudgetShowOnEachAlertAndInEachTerm(t *testing.T) {
	r := newRouted(t)
	clock := &ticking{now: time.Unix(0, 0), step: 250 * time.Millisecond}
	r.budget = filter.NewBudget(1, clock.look)
	long := recordOf(func(r *event.Record) { r.Event.Message = strings.Repeat("x", filter.MaxText) })
	expect := func(uid string) {
		t.Helper()
		r.put(t, spec(func(s *AlertSpec) { s.UID, s.Exclusion = uid, []string{"a[a-z]{5,50}y"} }))
		for range 2 {
			if err := r.route(t.Context(), []*event.Record{long, long}); err != nil {
				t.Fatal(err)
			}
		}
		if s := r.notes.ledger.accounts[objectName{kindAlert, "team-a", "alert"}].is; s.UID != uid || s.Health.Reason != ReasonPatternsTimed {
			t.Errorf("of %s: %+v", uid, *s)
		}
	}
	expect("first")
	expect("second")
	r.notes.ledger.begin(time.Now())
	expect("second")
}

// T6: fails when the process ends by a panic as an Alert is deleted in the moment in which its patterns are found to be in time again.
func TestT6AnExpensiveAlertMayBeDeletedAtAnyTime(t *testing.T) {
	w, now := newWorld(t), time.Now()
	a, _ := w.alerts.Lookup("team-a", "alert")
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				w.alerts.Delete("team-a/alert")
				w.alerts.Put(a)
			}
		}
	}()
	for range 20_000 {
		w.notes.ledger.cutShort(a, now)
		now = now.Add(filter.Window)
		w.notes.ledger.begin(now) // another term
		w.notes.ledger.publish(now)
	}
	close(stop)
	<-ended
}
