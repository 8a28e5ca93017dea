package alerts

import (
	"fmt"
	"testing"
	"time"

	"notifier/internal/alerts/filter"
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
