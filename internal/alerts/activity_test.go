package alerts

import (
	"fmt"
	"testing"
	"time"
)

// countedReports counts the reports by key.
type countedReports map[string]int

func (c countedReports) Report(key string, _ []byte) { c[key]++ }

// Fails when an Alert that is active is reported more than once in ten minutes, when its successor of the name is not reported, or when
// what is remembered of Alerts grows without a bound.
func TestAnActiveAlertIsReportedOnceInTenMinutes(t *testing.T) {
	reports := countedReports{}
	a := newActivities(AlertSent, reports)
	start := time.Now()
	for second := range 25 * 60 {
		a.note("team-a", "all", "uid-1", start.Add(time.Duration(second)*time.Second))
	}
	if n := reports["AlertSent/team-a/all"]; n != 3 {
		t.Errorf("%d reports in 25 minutes, want 3", n)
	}
	a.note("team-a", "all", "uid-2", start.Add(25*time.Minute))
	if n := reports["AlertSent/team-a/all"]; n != 4 {
		t.Errorf("%d reports with that of the successor, want 4", n)
	}
	for i := range 2 * maxActive {
		a.note("team-b", fmt.Sprint(i), "uid", start)
	}
	if n := len(a.told); n > maxActive {
		t.Errorf("%d Alerts are remembered, want %d at most", n, maxActive)
	}
}
