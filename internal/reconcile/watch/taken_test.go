package watch

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"notifier/internal/event"
)

// E6: which POST published a transition, and which are left for later ones. Fails when any condition of take is left out.
func TestE6TheFirstPOSTThatCoversATransitionIsUsedUp(t *testing.T) {
	it := item{kindNamed("Kustomization"), "team-a", "app"}
	began := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	told := func(outcome event.Outcome, seconds int) post {
		x := post{item: it, uid: "uid-1", outcome: outcome, accepted: at(seconds), seq: uint64(seconds)}
		if outcome == event.OutcomeFailed {
			x.message = "broken"
		}
		return x
	}
	recreated := told(event.OutcomeSucceeded, 2)
	recreated.uid = "uid-2"
	const succeeded, failed = event.OutcomeSucceeded, event.OutcomeFailed
	for name, tc := range map[string]struct {
		outcome     event.Outcome
		posts       []post
		found, left time.Time
		want        int   // the second of the POST, zero for none
		remain      []int // those of the POSTs that are left
	}{
		"a failure, the first of two":                       {failed, []post{told(failed, 1), told(failed, 2)}, at(9), time.Time{}, 1, []int{2}},
		"a success from before the term, the last of two":   {succeeded, []post{told(succeeded, 1), told(succeeded, 2)}, at(9), time.Time{}, 2, nil},
		"only one of the two is from before the term":       {succeeded, []post{told(succeeded, 1), told(succeeded, 20)}, at(9), time.Time{}, 1, []int{20}},
		"the last is about another object of the name":      {succeeded, []post{told(succeeded, 1), recreated}, at(9), time.Time{}, 1, []int{2}},
		"the object left the state between the two":         {succeeded, []post{told(succeeded, 1), told(succeeded, 3)}, at(9), at(2), 1, []int{3}},
		"the object left the state before both":             {succeeded, []post{told(succeeded, 3), told(succeeded, 4)}, at(9), at(2), 0, []int{3, 4}},
		"the opposite was told last":                        {succeeded, []post{told(succeeded, 1), told(failed, 2)}, at(9), time.Time{}, 0, []int{1, 2}},
		"the opposite was told after it had left the state": {succeeded, []post{told(succeeded, 1), told(failed, 3)}, at(9), at(2), 1, []int{3}},
		"none is told": {succeeded, nil, at(9), time.Time{}, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			gauge := prometheus.NewGauge(prometheus.GaugeOpts{})
			n := newPosts(gauge)
			for _, x := range tc.posts {
				n.add(x)
			}
			o := &object{kind: it.kind}
			o.ready.message = "broken"
			tr := &transition{state: state{UID: "uid-1", Outcome: tc.outcome}, object: o, found: tc.found}
			got := 0
			if d := n.take(it, tr, lastPublished{}, tc.left); d != nil {
				got = int(d.told.Sub(began) / time.Second)
			}
			all, _ := n.items.Peek(it)
			var remain []int
			for _, x := range all {
				remain = append(remain, int(x.seq))
			}
			if diff := cmp.Diff(tc.remain, remain); got != tc.want || diff != "" {
				t.Errorf("used the POST of second %d, want %d; left (-want +got):\n%s", got, tc.want, diff)
			}
			if count := testutil.ToFloat64(gauge); count != float64(len(remain)) {
				t.Errorf("%v POSTs are counted, want %d", count, len(remain))
			}
		})
	}
}
