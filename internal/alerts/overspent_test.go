package alerts

import (
	"fmt"
	"testing"
	"time"

	"notifier/internal/alerts/filter"
)

// T6: an owner is shown that the patterns of an Alert are not all evaluated. Fails when a namespace with very many such Alerts leaves no place
// for those of another one, or when those of a namespace have no bound.
func TestT6TheExpensiveAlertsOfANamespaceHideNoOthers(t *testing.T) {
	o, now := newOverspent(), time.Now()
	for i := range maxOverspent + 1 {
		name := fmt.Sprint("alert-", i)
		if kept := o.cut(&Alert{Namespace: "many", Name: name}, now); kept != (i < maxOverspent) {
			t.Errorf("%s is to be reported: %t", name, kept)
		}
	}
	other := &Alert{Namespace: "team-a", Name: "alert"}
	if !o.cut(other, now) {
		t.Error("an Alert of another namespace is not to be reported")
	}
	if n := len(o.inTime(now.Add(2 * filter.Window))); n != maxOverspent+1 {
		t.Errorf("%d Alerts are in time again", n)
	}
	if len(o.alerts) != 0 {
		t.Errorf("%d namespaces are remembered for nothing", len(o.alerts))
	}
}
