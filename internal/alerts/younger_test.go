package alerts

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alloctest"
	"notifier/internal/event"
)

// E1: an event is not for an Alert that was made after the event was accepted, since the namespace may be another tenant's by then. Where
// the clocks of the API server and of this process disagree, an earlier Alert does not count as younger. Fails when decide does not check
// it, when the Table loses at an edit since when it has an Alert, or keeps that time for another Alert of the name.
func TestE1AnAlertGetsNothingThatWasAcceptedBeforeItWasMade(t *testing.T) {
	type step struct {
		uid     string
		created time.Duration // after the moment of the Put, as the API server's clock says
	}
	for name, tc := range map[string]struct {
		steps    []step // a second apart, the last one a second before the event is routed
		accepted time.Duration
		gets     bool
	}{
		"made before it was accepted":                       {[]step{{"a", -time.Minute}}, -time.Second, true},
		"made after it was accepted":                        {[]step{{"a", 0}}, -2 * time.Second, false},
		"accepted in the second in which it was made":       {[]step{{"a", -500 * time.Millisecond}}, -1100 * time.Millisecond, true},
		"made a minute ago by a clock that is ahead":        {[]step{{"a", time.Hour}}, -time.Second / 2, true},
		"edited after it was accepted":                      {[]step{{"a", time.Hour}, {"a", time.Hour - time.Second}}, -1500 * time.Millisecond, true},
		"made and edited after it was accepted":             {[]step{{"a", 0}, {"a", 0}}, -2500 * time.Millisecond, false},
		"deleted and made again after it was accepted":      {[]step{{"a", 0}, {"b", 0}}, -1500 * time.Millisecond, false},
		"made anew, by a clock that is ahead, after it was": {[]step{{"a", time.Hour}, {"b", time.Hour}}, -1500 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRouted(t)
				for _, step := range tc.steps {
					r.put(t, spec(func(s *AlertSpec) { s.UID, s.Created = step.uid, time.Now().Add(step.created).Truncate(time.Second) }))
					<-time.After(time.Second)
				}
				record := recordOf(func(r *event.Record) { r.Accepted = time.Now().Add(tc.accepted) })
				if err := r.route(t.Context(), []*event.Record{record}); err != nil {
					t.Fatal(err)
				}
				if got := len(r.events.published) == 1; got != tc.gets {
					t.Errorf("gets it: %v", got)
				}
			})
		})
	}
}

// T6: an edit of one of very many Alerts costs as much as its own sources. Fails when an edit, or the event after it, reads the other
// Alerts of the namespace, since an index of them is memory.
func TestT6AnEditCostsNothingForTheOtherAlertsOfItsNamespace(t *testing.T) {
	table, object := NewTable(), kustomization("team-a", "app")
	for i := range 16_000 {
		put(t, table, "team-a", fmt.Sprint("alert-", i), Source{Kind: "HelmRelease", Name: "*"})
	}
	into := make([]*Alert, 0, 8)
	edit := func() {
		again := compiled(t, spec(nil))
		table.Put(again)
		if into, _ = table.Select(object, nil, into[:0]); len(into) != 1 || into[0] != again {
			t.Fatalf("selected %v", names(into))
		}
	}
	edit()
	made := alloctest.Bytes(func() {
		for range 100 {
			edit()
		}
	})
	if made > 100*16<<10 {
		t.Errorf("an edit makes %d bytes", made/100)
	}
	table.Delete("team-a/alert")
	if left := selected(table, object, nil); len(left) != 0 {
		t.Errorf("selected %v after its deletion", names(left))
	}
	if other := (event.ObjectReference{Kind: "HelmRelease", Namespace: "team-a", Name: "x"}); len(selected(table, other, nil)) != 16_000 {
		t.Errorf("%d of the others are left", len(selected(table, other, nil)))
	}
}

// E1: fails when a delivery goes on for another Alert of the name, or is given up although this replica's cache may only lag behind.
func TestE1TheAlertOfADeliveryIsGoneOnlyWhenThatIsCertain(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		uid          string // of the Alert, empty for none
		made, routed time.Duration
		exists, gone bool
	}{
		"it exists": {"uid-1", -time.Hour, 0, true, false},
		"it exists since the delivery was routed":         {"uid-1", 0, -time.Hour, true, false},
		"it is not there yet":                             {"", 0, -time.Second, false, false},
		"it was not there for long":                       {"", 0, -ownerGrace, false, true},
		"another was made after the delivery was routed":  {"uid-2", -time.Second, -2 * time.Second, false, true},
		"another was made before the delivery was routed": {"uid-0", -time.Hour, -time.Second, false, false},
	} {
		w := newWorld(t)
		w.alerts = NewTable()
		if tc.uid != "" {
			w.alerts.Put(&Alert{Namespace: "team-a", Name: "alert", UID: tc.uid, Created: now.Add(tc.made)})
		}
		s := &shard{Deliverer: w.deliverer(w.bus.session())}
		if exists, gone := s.ownerOf("team-a", owner{"alert", "uid-1"}, now.Add(tc.routed), now); exists != tc.exists || gone != tc.gone {
			t.Errorf("%s: exists %v, gone %v, want %v, %v", name, exists, gone, tc.exists, tc.gone)
		}
	}
}
