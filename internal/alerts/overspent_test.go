package alerts

import (
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
	o, now := newOverspent(), time.Now()
	const many = 1000 // as are served by default
	for i := range many {
		name := fmt.Sprint("alert-", i)
		o.cut(&Alert{Namespace: "many", Name: name, UID: name}, now)
	}
	for range 2 {
		o.cut(&Alert{Namespace: "team-a", Name: "alert", UID: "other"}, now)
	}
	if n := len(o.inTime(now.Add(2 * filter.Window))); n != many+1 {
		t.Errorf("%d Alerts are in time again", n)
	}
	if len(o.alerts) != 0 {
		t.Errorf("%d Alerts are remembered for nothing", len(o.alerts))
	}
}

// Fails when cutShort does not report, or inTime never returns an Alert.
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
		clock.step = 0
		for range 3 {
			pass(filter.Window)
			route()
		}
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
