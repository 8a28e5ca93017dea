package alerts

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// outcomes returns how many times each result is among the recent ones of a standing.
func outcomes(s Standing) map[string]int {
	n := map[string]int{}
	for _, o := range s.Recent {
		n[o.Result]++
	}
	return n
}

// Fails when an outcome is not recorded, is recorded for the wrong object, or when a waiting delivery or a dead letter is not counted.
func TestTheLedgerHasWhatBecameOfDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.destination("chat", sendFunc(func(_ context.Context, n provider.Notification) error {
			switch n.Event.InvolvedObject.Name {
			case "refused":
				return failure(event.Permanent, provider.LabelClient)
			case "down":
				return failure(event.Retry, provider.LabelServer)
			}
			return nil
		}))
		w.destination("quiet", &sink{})
		_, stop := w.run()
		wait(time.Second)
		began := time.Now()
		for _, object := range []string{"a", "refused", "b", "down"} {
			w.bus.publish(w.delivery("chat", object))
			wait(time.Second)
		}
		wait(40 * time.Second)
		// The refused delivery was tried once more when the destination accepted another.
		for _, kind := range []string{"Alert/team-a/alert", "Provider/team-a/chat"} {
			told := w.notes.standings(kind)
			last := told[len(told)-1]
			if last.Delivered != 2 || last.Failed != 2 || last.Dead != 1 || last.Pending != 1 || !last.Counted || last.Since.After(began) {
				t.Errorf("%s: %+v", kind, last)
			}
			if last.LastDelivery.Name != "b" || last.LastFailure.Name != "down" || last.Failure != "the destination said no" ||
				last.LastFailure.Result != outcomeRetry || last.LastFailure.Attempts < 2 {
				t.Errorf("%s: last delivery %+v, last failure %+v", kind, last.LastDelivery, last.LastFailure)
			}
			if n := outcomes(last); n[outcomeSent] != 2 || n[outcomeDead] != 2 || n[outcomeRetry] < 2 {
				t.Errorf("%s: recent %v", kind, n)
			}
			if strings.Contains(fmt.Sprintf("%+v", last), "SECRET") {
				t.Errorf("a secret in %+v", last)
			}
		}
		if s := w.notes.ledger.Get(kindProvider, "team-a", "quiet"); !s.Counted || s.Pending != 0 || s.Delivered != 0 || s.UID != "" {
			t.Errorf("of one that had nothing to send: %+v", s)
		}
		stop()
		if s := w.notes.ledger.Get(kindProvider, "team-a", "chat"); s.Counted || s.UID != "" || s.Recent != nil {
			t.Errorf("after the end of the term: %+v", s)
		}
	})
}

// The bus has waiting deliveries and dead letters whose Alerts are not read yet. Fails when a new worker reports their numbers as known
// too early, or counts other numbers than the bus has; and when replayed dead letters are still counted.
func TestANewWorkerCountsWhatIsOnTheBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.alert("team-a", "other", "uid-2", "chat")
		down := sendFunc(func(_ context.Context, n provider.Notification) error {
			if strings.HasPrefix(n.Event.InvolvedObject.Name, "bad") {
				return failure(event.Permanent, provider.LabelClient)
			}
			return failure(event.Retry, provider.LabelServer)
		})
		w.destination("chat", down)
		s, stop := w.run()
		for i := range 60 {
			d := w.delivery("chat", fmt.Sprint([]string{"app", "bad"}[i%2], i))
			if i%3 == 0 {
				d.Alert, d.AlertUID = "other", "uid-2"
			}
			w.bus.publish(d)
		}
		wait(time.Minute)
		s.kill()
		stop()
		w.notes = newNotes(w.alerts, w.destinations)
		_, stop = w.run()
		wait(time.Second)
		if p, a := w.notes.ledger.Get(kindProvider, "team-a", "chat"), w.notes.ledger.Get(kindAlert, "team-a", "alert"); !p.Counted || a.Counted {
			t.Errorf("at once: counted of the Provider %t, of the Alert %t", p.Counted, a.Counted)
		}
		wait(3 * time.Minute)
		for key, want := range map[string][2]int{"Alert/alert": {20, 20}, "Alert/other": {10, 10}, "Provider/chat": {30, 30}} {
			kind, name, _ := strings.Cut(key, "/")
			if got := w.notes.ledger.Get(kind, "team-a", name); !got.Counted || got.Pending != want[0] || got.Dead != want[1] {
				t.Errorf("%s: counted %t, %d wait, %d dead, want %v", key, got.Counted, got.Pending, got.Dead, want)
			}
		}
		w.destinations.Put("team-a", "chat", &Destination{UID: "p-chat", Type: "generic", Version: "mended", Sender: &sink{}})
		wait(35 * time.Second) // before they are counted anew
		for _, name := range []string{"alert", "other"} {
			if got := w.notes.ledger.Get(kindAlert, "team-a", name); got.Dead != 0 {
				t.Errorf("%s when all was replayed: %d dead", name, got.Dead)
			}
		}
		wait(2 * time.Minute) // the last retry
		for _, name := range []string{"alert", "other"} {
			if got := w.notes.ledger.Get(kindAlert, "team-a", name); got.Pending != 0 || got.Dead != 0 {
				t.Errorf("%s in the end: %d wait, %d dead", name, got.Pending, got.Dead)
			}
		}
		stop()
	})
}

// The deliveries wait for a limit, and not for a destination that is down. Fails when a new worker does not read their Alerts.
func TestANewWorkerCountsWhatWaitsForALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.destinations.Put("team-a", "chat", &Destination{UID: "p-chat", Type: "generic", Sender: &sink{}, Limit: 0.01, Burst: 1})
		s, stop := w.run()
		for i := range 500 {
			w.bus.publish(w.delivery("chat", fmt.Sprint("app", i)))
		}
		wait(time.Minute)
		s.kill()
		stop()
		w.notes = newNotes(w.alerts, w.destinations)
		_, stop = w.run()
		wait(3 * time.Minute)
		for _, key := range [][2]string{{kindProvider, "chat"}, {kindAlert, "alert"}} {
			if got := w.notes.ledger.Get(key[0], "team-a", key[1]); !got.Counted || got.Pending < 490 || got.Pending > 500 {
				t.Errorf("%s: %d wait (counted %t)", key, got.Pending, got.Counted)
			}
		}
		stop()
	})
}

// Fails when an object that always has news is reported more than once in ten seconds, or when its last news is not reported. It also
// fails when losses do not end after an hour, or when objects that no longer exist are kept.
func TestNewsIsReportedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.destination("chat", &sink{})
		chat := w.destinations.Get("team-a", "chat")
		n := w.notes
		l := n.ledger
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go n.follow(ctx)
		d := event.Delivery{Namespace: "team-a", Alert: "alert", AlertUID: "uid-1", Provider: "chat"}
		gone := d
		gone.Alert = "gone"
		for range 300 {
			l.note(&d, chat, verdict{outcome: outcomeSent}, time.Now())
			l.note(&gone, nil, verdict{outcome: outcomeSent}, time.Now())
			wait(time.Second / 2)
		}
		l.note(&d, chat, verdict{outcome: outcomeDead, label: event.LabelQuota, reason: "too many"}, time.Now())
		wait(newsGap + time.Second)
		told := n.standings("Provider/team-a/chat")
		last := told[len(told)-1]
		if len(told) < 15 || len(told) > 17 || last.Delivered != 300 || last.Failed != 1 || last.Loss.Count != 1 ||
			len(last.Recent) != MaxRecent || last.Recent[MaxRecent-1].Result != outcomeDead {
			t.Errorf("told %d times in 160 s, last %+v", len(told), last)
		}
		wait(lossesShown)
		if last = l.Get(kindProvider, "team-a", "chat"); last.Loss.Count != 0 || last.Loss.At.IsZero() || last.Failed != 1 {
			t.Errorf("an hour later: %+v", last)
		}
		l.note(&d, chat, verdict{outcome: outcomeDead, label: event.LabelQuota, reason: "too many"}, time.Now())
		wait(newsGap + time.Second)
		if last = l.Get(kindProvider, "team-a", "chat"); last.Loss.Count != 1 || last.Failed != 2 {
			t.Errorf("after another loss: %+v", last)
		}
		if a := l.accounts[objectName{kindAlert, "team-a", "gone"}]; a != nil || len(n.standings("Alert/team-a/gone")) != 0 {
			t.Errorf("kept of an Alert that is gone: %+v", a)
		}
	})
}

// Deliveries of an Alert or to a Provider end after another one of the same name was made. Fails when their outcomes, or other late news of
// the former one, clear the counts of its successor.
func TestLateNewsOfAFormerObjectLeavesItsSuccessorsStanding(t *testing.T) {
	w := newWorld(t)
	former := &Destination{UID: "p-former"}
	w.destination("chat", &sink{})
	l, chat := w.notes.ledger, w.destinations.Get("team-a", "chat")
	d := w.delivery("chat", "app")
	late := d
	late.AlertUID = "uid-0"
	for range 2 {
		l.note(&d, chat, verdict{outcome: outcomeSent}, time.Now())
		l.note(&late, former, verdict{outcome: outcomeDead, label: labelOwnerGone, reason: reasonOwnerGone}, time.Now())
		l.health(kindProvider, "team-a", "chat", former.UID, Health{State: StateFailing})
		l.health(kindAlert, "team-a", "alert", "uid-0", Health{State: StateFailing})
		l.matched("team-a", "alert", "uid-0", time.Now())
	}
	l.publish(time.Now())
	for kind, uid := range map[string]string{kindAlert: "uid-1", kindProvider: "p-chat"} {
		name := map[string]string{kindAlert: "alert", kindProvider: "chat"}[kind]
		if s := l.Get(kind, "team-a", name); s.UID != uid || s.Delivered != 2 || s.Failed != 0 || s.Health.State != "" || !s.Matched.IsZero() {
			t.Errorf("%s: %+v", kind, s)
		}
	}
}

// Fails when an object keeps more outcomes than its last ones, or all of a long reason.
func TestTheMemoryOfAnObjectIsBounded(t *testing.T) {
	const objects, uid = 10_000, "0c9c2e41-7a3b-4f0e-9d53-5f8f4c1f2b77"
	long := strings.Repeat("x", 4<<10)
	table := NewTable()
	for i := range objects {
		table.Put(compiled(t, AlertSpec{Namespace: "team-a", Name: fmt.Sprint("alert-", i), UID: uid, Provider: "chat"}))
	}
	size := func(deliveries int) uint64 {
		l := NewLedger(table, NewDestinations())
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range objects {
			name := fmt.Sprint("alert-", i)
			for j := range deliveries {
				d := event.Delivery{Namespace: "team-a", Alert: name, AlertUID: uid}
				d.Event.InvolvedObject = event.ObjectReference{Kind: "Kustomization", Name: fmt.Sprint("a-name-of-some-length-", j)}
				d.Event.Reason = long
				l.note(&d, nil, verdict{outcome: outcomeRetry, label: provider.LabelServer, reason: "HTTP 503"}, time.Now())
			}
		}
		l.publish(time.Now())
		if r := l.Get(kindAlert, "team-a", "alert-0").Recent[0].Reason; len(r) > maxReason {
			t.Errorf("a reason of %d bytes", len(r))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		defer runtime.KeepAlive(l)
		return (after.HeapAlloc - min(before.HeapAlloc, after.HeapAlloc)) / objects
	}
	one, many := size(1), size(MaxRecent+1)
	t.Logf("%d bytes an object with one outcome, %d with %d", one, many, MaxRecent)
	if one > 2<<10 || many > 6<<10 {
		t.Errorf("%d bytes an object with one outcome, %d with many", one, many)
	}
}
