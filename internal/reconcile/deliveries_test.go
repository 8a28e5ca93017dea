package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	v1 "notifier/api/v1"
	"notifier/internal/receiver"
)

// report puts a replica's counts for the Receiver "app" into the feed.
func (w *world) report(replica string, change ...func(*receiver.Deliveries)) {
	w.t.Helper()
	d := receiver.Deliveries{UID: "uid-app", Since: time.Now().Add(-time.Hour)}
	for _, c := range change {
		c(&d)
	}
	value, err := json.Marshal(d)
	if err != nil {
		w.t.Fatal(err)
	}
	w.feed.put("Deliveries/team-a/app/"+replica, string(value))
}

func counts(accepted int64) func(*receiver.Deliveries) {
	return func(d *receiver.Deliveries) { d.Accepted = accepted }
}

func (w *world) deliveries() *v1.ReceiverDeliveries {
	return w.live("Receiver", "app").(*v1.Receiver).Status.Deliveries
}

// accepted returns the shown count, -1 if none is shown.
func (w *world) accepted() int64 {
	if d := w.deliveries(); d != nil {
		return d.Accepted
	}
	return -1
}

// replicas reports whether a replica is alive.
type replicas struct {
	mu   sync.Mutex
	dead map[string]bool
}

func (r *replicas) alive(_ context.Context, name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.dead[name]
}

func (r *replicas) kill(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead[name] = true
}

func oneReceiver() settings {
	return settings{objects: []runtime.Object{newReceiver("app")}, secrets: []*corev1.Secret{newSecret("hook", "token", "t")}}
}

// Fails when one replica's report replaces another's, or when the older of two outcomes or of two uses of the previous token is shown.
// Fails when the later of two start times is shown, or when an earlier Receiver's counts are added.
func TestDeliveriesAreSummedUpOverReplicas(t *testing.T) {
	play(t, oneReceiver(), func(w *world) {
		pass(deliveriesGap)
		now := time.Now().UTC().Truncate(time.Second)
		at := func(ago time.Duration, id, result, reason string) receiver.Outcome {
			return receiver.Outcome{Time: now.Add(-ago).Add(time.Millisecond), ID: id, Result: result, Reason: reason}
		}
		w.report("r1", func(d *receiver.Deliveries) {
			d.Accepted, d.Folded, d.Duplicate, d.Refused, d.Failed = 1, 2, 3, 4, 5
			d.Since, d.PreviousToken = now.Add(-time.Hour), now.Add(-time.Second+time.Millisecond)
			d.Last, d.LastError = at(time.Minute, "old", "accepted", ""), at(time.Second, "", "event", "event not listed")
		})
		w.report("r2", func(d *receiver.Deliveries) {
			d.Accepted, d.Folded, d.Duplicate, d.Refused, d.Failed = 10, 20, 30, 40, 50
			d.Since, d.PreviousToken = now.Add(-time.Minute), now.Add(-time.Minute)
			d.Last = at(time.Second, "new", "folded", "")
		})
		w.report("r3", func(d *receiver.Deliveries) { d.UID, d.Accepted = "uid-of-another", 1000 })
		w.settle()
		used := metav1.NewTime(now.Add(-time.Second))
		want := &v1.ReceiverDeliveries{
			Since: metav1.NewTime(now.Add(-time.Hour)), Accepted: 11, Folded: 22, Duplicate: 33, Refused: 44, Failed: 55,
			Last:              &v1.ReceiverDelivery{Time: metav1.NewTime(now.Add(-time.Second)), ID: "new", Result: "folded"},
			LastError:         &v1.ReceiverDelivery{Time: metav1.NewTime(now.Add(-time.Second)), Result: "event", Reason: "event not listed"},
			LastPreviousToken: &used,
		}
		if diff := cmp.Diff(want, w.deliveries()); diff != "" {
			t.Errorf("status.deliveries (-want +got):\n%s", diff)
		}
		w.ready("Receiver", "app", "True Succeeded")
	})
}

// Fails when each report is written, when a report during the pause is forgotten, and when an unchanged report is written.
func TestDeliveriesAreWrittenEveryFewSecondsAndOnChange(t *testing.T) {
	play(t, oneReceiver(), func(w *world) {
		pass(deliveriesGap)
		before := w.writes()["update receivers/status"]
		for i := range 600 {
			w.report("r1", counts(int64(i)))
			pass(100 * time.Millisecond)
		}
		pass(2 * deliveriesGap)
		if n := w.writes()["update receivers/status"] - before; n < 10 || n > 14 {
			t.Errorf("writes in a minute: %d", n)
		}
		if got := w.accepted(); got != 599 {
			t.Errorf("accepted: %d, want 599", got)
		}
		before = w.writes()["update receivers/status"]
		for range 100 {
			w.report("r1", counts(599), func(d *receiver.Deliveries) { d.Since = w.deliveries().Since.Time })
			pass(time.Second)
		}
		if n := w.writes()["update receivers/status"] - before; n != 0 {
			t.Errorf("writes without news: %d", n)
		}
	})
}

// A new leader reads the replicas' reports one after the other. Fails when it writes an incomplete sum.
func TestANewLeaderDoesNotShowHalfASum(t *testing.T) {
	s := oneReceiver()
	s.follower = true
	play(t, s, func(w *world) {
		ctx, stop := context.WithCancel(w.t.Context())
		defer stop()
		ended := make(chan error)
		go func() { ended <- w.Lead(ctx) }()
		pass(time.Second)
		w.report("r1", counts(1))
		w.settle()
		if got := w.accepted(); got != -1 {
			t.Errorf("%d are shown after four seconds", got)
		}
		w.report("r2", counts(10))
		pass(deliveriesGap)
		if got := w.accepted(); got != 11 {
			t.Errorf("accepted: %d, want 11", got)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Flux's own CRD has no field for them. Fails when the status is written repeatedly because the API server drops them, and when a CRD
// that has the field is never noticed.
func TestDeliveriesThatTheCRDHasNoFieldForAreNotWrittenAgain(t *testing.T) {
	var mu sync.Mutex
	prunes := true
	s := oneReceiver()
	s.prepare = func(w *world) {
		w.cluster.PrependReactor("update", "receivers", func(a clienttesting.Action) (bool, runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			if !prunes {
				return false, nil, nil
			}
			kept := a.(clienttesting.UpdateAction).GetObject().DeepCopyObject().(*v1.Receiver)
			kept.Status.Deliveries = nil
			return true, kept, w.cluster.Tracker.Update(resources["Receiver"], kept, kept.Namespace)
		})
	}
	play(t, s, func(w *world) {
		pass(deliveriesGap)
		before := w.writes()["update receivers/status"]
		for i := range 60 {
			w.report("r1", counts(int64(i)))
			pass(9 * time.Second)
		}
		if n := w.writes()["update receivers/status"] - before; n != 1 {
			t.Errorf("writes in nine minutes: %d, want 1", n)
		}
		w.ready("Receiver", "app", "True Succeeded")
		mu.Lock()
		prunes = false // our CRD has replaced Flux's
		mu.Unlock()
		pass(time.Minute)
		w.report("r1", counts(100))
		pass(deliveriesGap)
		if got := w.accepted(); got != 100 {
			t.Errorf("accepted: %d, want 100", got)
		}
	})
}

// Fails when a report of an ended replica or about a deleted Receiver stays. Fails when a report of a replica or about a Receiver that is
// not known yet is removed.
func TestReportsThatNobodyReplacesAreRemoved(t *testing.T) {
	r := &replicas{dead: map[string]bool{"r2": true}}
	s := oneReceiver()
	s.change = func(o *Options) { o.Alive = r.alive }
	play(t, s, func(w *world) {
		pass(deliveriesGap)
		w.report("r1", counts(1))
		w.report("r2", counts(10))
		w.feed.put("Deliveries/team-a/gone/r1", `{"uid":"uid-gone","accepted":1}`)
		has := func(key string) bool {
			w.feed.mu.Lock()
			defer w.feed.mu.Unlock()
			return w.feed.values[key] != nil
		}
		pass(sweepEvery)
		if !has("Deliveries/team-a/app/r2") || !has("Deliveries/team-a/gone/r1") {
			t.Error("removed when first found")
		}
		pass(sweepEvery)
		if has("Deliveries/team-a/app/r2") || has("Deliveries/team-a/gone/r1") || !has("Deliveries/team-a/app/r1") {
			t.Errorf("after the second look the feed has %v", w.feed.values)
		}
		pass(deliveriesGap)
		if got := w.accepted(); got != 1 {
			t.Errorf("accepted: %d, want 1", got)
		}
		for i := range 2 * maxSwept {
			w.feed.put(fmt.Sprintf("Deliveries/team-a/gone-%d/r1", i), `{"uid":"u"}`)
		}
		pass(4 * sweepEvery)
		if n := len(w.feed.values); n != 1 {
			t.Errorf("the feed has %d keys, want 1", n)
		}
		if n := len(w.Reconciler.health.reports); n != 1 {
			t.Errorf("%d reports are remembered, want 1", n)
		}
	})
}

// Nothing else removes the reports on a deleted object. Fails when one stays, of any kind, and when a report on an existing object, or on
// an object unknown to this replica as yet, is removed.
func TestHealthOfObjectsThatAreNoMoreIsRemoved(t *testing.T) {
	s := oneReceiver()
	s.objects = append(s.objects, newProvider("app"), newAlert("app"))
	// An earlier release also reported Providers and Alerts there.
	play(t, s, func(w *world) {
		for _, key := range []string{
			"Receiver/team-a/app", "Loop/team-a/app", "Provider/team-a/app", "Alert/team-a/app", "Receiver/team-a/late", "x",
			"Provider/team-a/gone", "Alert/team-a/gone",
		} {
			w.feed.put(key, `{"uid":"u"}`)
		}
		for i := range 2 * maxSwept {
			w.feed.put(fmt.Sprintf("Receiver/team-b/gone-%d", i), `{"uid":"u"}`)
		}
		w.feed.put("Loop/team-a/gone", `{"uid":"u"}`)
		pass(sweepEvery)
		w.apply("Receiver", newReceiver("late"))
		pass(3 * sweepEvery)
		var kept []string
		for key := range w.feed.values {
			kept = append(kept, key)
		}
		slices.Sort(kept)
		want := []string{
			"Loop/team-a/app", "Receiver/team-a/app", "Receiver/team-a/late", "x",
		}
		if diff := cmp.Diff(want, kept); diff != "" {
			t.Errorf("the feed has (-want +got):\n%s", diff)
		}
		if n := len(w.health.reports); n != len(want)-1 {
			t.Errorf("%d reports are kept", n)
		}
	})
}

// Invariant T6: a tenant that makes and deletes Receivers, whose writes are refused at the rate of --trigger-qps, does not fill the feed, in
// which there would be no room for the reports of others. Fails when a search removes 300 reports.
func TestT6ReportsAboutDeletedReceiversAreRemovedAsFastAsTheyAreMade(t *testing.T) {
	play(t, oneReceiver(), func(w *world) {
		const made = 220 // a second
		for second := range 200 {
			for i := range made {
				w.feed.put(fmt.Sprintf("Receiver/team-b/gone-%d-%d", second, i), `{"uid":"u"}`)
			}
			pass(time.Second)
		}
		w.feed.mu.Lock()
		defer w.feed.mu.Unlock()
		if n, most := len(w.feed.values), made*int(3*sweepEvery/time.Second); n > most {
			t.Errorf("the feed has %d reports, want at most %d", n, most)
		}
	})
}

// Fails when the end of the process that counted removes the last delivery, or the last use of the previous token, from the status.
func TestTheLastDeliveryOutlivesItsReplica(t *testing.T) {
	r := &replicas{dead: map[string]bool{}}
	s := oneReceiver()
	s.change = func(o *Options) { o.Alive = r.alive }
	play(t, s, func(w *world) {
		pass(deliveriesGap)
		w.report("r1", counts(7), func(d *receiver.Deliveries) {
			d.Last, d.PreviousToken = receiver.Outcome{Time: time.Now(), ID: "7", Result: "accepted"}, time.Now()
		})
		w.settle()
		r.kill("r1")
		pass(3 * sweepEvery)
		w.report("r2", func(d *receiver.Deliveries) { d.Refused = 1 })
		pass(deliveriesGap)
		if got := w.deliveries(); got.Accepted != 0 || got.Refused != 1 || got.Last == nil || got.Last.ID != "7" ||
			!got.LastPreviousToken.Equal(&got.Last.Time) {
			t.Errorf("status.deliveries: %+v", got)
		}
	})
}

func TestAReportThatIsNoneChangesNothing(t *testing.T) {
	play(t, oneReceiver(), func(w *world) {
		pass(deliveriesGap)
		for _, key := range []string{"Deliveries/team-a/app", "Deliveries/team-a/app/r1/x", "Deliveries/", "Deliveries/team-a/app/r1"} {
			w.feed.put(key, "no JSON")
		}
		pass(2 * sweepEvery)
		if got := w.accepted(); got != -1 {
			t.Errorf("accepted: %d", got)
		}
	})
}
