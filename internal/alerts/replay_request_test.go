package alerts

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
	"notifier/internal/event/view"
)

// routed makes the next delivery of an object to a Provider as the router makes it, for an Alert of the Provider's name.
func (w *world) routed(providerName, object string) event.Delivery {
	w.t.Helper()
	a, known := w.alerts.Lookup("team-a", "alert-of-"+providerName)
	if !known {
		w.alert("team-a", "alert-of-"+providerName, "uid-of-"+providerName, providerName)
		a, _ = w.alerts.Lookup("team-a", "alert-of-"+providerName)
	}
	w.order++
	rec := recordOf(func(r *event.Record) {
		r.ID, r.Seq, r.Known, r.Accepted = fmt.Sprint("e", w.order), w.order, true, time.Now()
		r.Event.InvolvedObject.Name = object
	})
	w.bus.mu.Lock()
	w.bus.records[rec.Seq] = rec
	w.bus.mu.Unlock()
	d, _ := address(rec, a)
	d.ProviderUID = "p-" + providerName
	return d
}

// start is run, and returns the Deliverer as well. It replays nothing by itself.
func (w *world) start() (d *Deliverer, s *fakeSession, stop func()) {
	w.t.Helper()
	return w.startWith(func(*Deliverer, *fakeSession) {})
}

// startWith is start with a Deliverer that set has changed.
func (w *world) startWith(set func(*Deliverer, *fakeSession)) (d *Deliverer, s *fakeSession, stop func()) {
	w.t.Helper()
	s = w.bus.session()
	d = w.deliverer(s)
	d.ReplayWindow = 0
	set(d, s)
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go w.notes.follow(ctx)
	go func() { done <- d.Run(ctx) }()
	synctest.Wait()
	return d, s, func() {
		w.t.Helper()
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("Run: %v", err)
		}
	}
}

// replay asks for a replay that must be served.
func replay(t *testing.T, d *Deliverer, req view.ReplayRequest) view.ReplayResult {
	t.Helper()
	result, err := d.Replay(t.Context(), "team-a", req)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// TestE4AReplayOfDeadLettersGoesInOrderAndOnce fails when resend does not place the published deliveries before their successors, when a
// letter is left, when letters that are named by their IDs go in the order of these, or when the Sender does not learn that it is a replay.
func TestE4AReplayOfDeadLettersGoesInOrderAndOnce(t *testing.T) {
	for name, request := range map[string]func(ids []string) view.ReplayRequest{
		"all":          func([]string) view.ReplayRequest { return view.ReplayRequest{State: view.StateDead} },
		"by their IDs": func(ids []string) view.ReplayRequest { return view.ReplayRequest{IDs: ids} },
	} {
		t.Run(name, func(t *testing.T) { replayInOrder(t, request) })
	}
}

func replayInOrder(t *testing.T, request func(ids []string) view.ReplayRequest) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &refusing{}
		w.version("chat", "1", dest)
		d, _, stop := w.start()
		var want []string
		for i := range 30 {
			is := w.routed("chat", fmt.Sprint("app", i%3))
			want = append(want, is.ID)
			w.bus.publish(is)
		}
		wait(time.Minute)
		dest.mended.Store(true)
		published := 0
		w.bus.faults = func(op string) error {
			if op != "replay" {
				return nil
			}
			if published++; published > 4 && published < 8 { // the successor is published
				return errCut
			}
			return nil
		}
		var next event.Delivery
		go func() {
			pass(50 * time.Millisecond)
			next = w.routed("chat", "app0")
			w.bus.publish(next)
		}()
		result := replay(t, d, request(want))
		wait(time.Minute)
		if result.Replayed != 30 || result.More || len(result.Refused) > 0 {
			t.Errorf("%+v", result)
		}
		for object := range 3 {
			var mine, got []string
			for i := object; i < 30; i += 3 {
				mine = append(mine, want[i])
			}
			if object == 0 {
				mine = append(mine, next.ID)
			}
			for _, n := range dest.got {
				if n.Event.InvolvedObject.Name == fmt.Sprint("app", object) {
					got = append(got, n.DeliveryID)
					if n.Replayed != (n.DeliveryID != next.ID) {
						t.Errorf("replayed: %t", n.Replayed)
					}
				}
			}
			if !slices.Equal(got, mine) {
				t.Errorf("app%d got %v\ninstead of %v", object, got, mine)
			}
		}
		if n := len(w.bus.deadLetters()); n != 0 || !w.bus.empty() {
			t.Errorf("%d letters are left", n)
		}
		stop()
	})
}

// TestASentDeliveryIsReplayedUnderItsID fails when the history counts the replay as sent, when a crash has it sent twice or never, or
// when it lacks the Alert's current metadata.
func TestASentDeliveryIsReplayedUnderItsID(t *testing.T) {
	for name, crash := range map[string]bool{"undisturbed": false, "over a crash": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, dest := newWorld(t), &sink{}
				w.bus.pause = time.Second // the crash is before the bus hands out the replay's message
				w.destination("chat", dest)
				d, s, stop := w.start()
				first := w.routed("chat", "app")
				w.bus.publish(first)
				wait(time.Minute)
				edited := compiled(t, AlertSpec{
					Namespace: "team-a", Name: first.Alert, UID: first.AlertUID, Provider: "chat", Summary: "now",
					Sources: []Source{{Kind: "Kustomization", Name: "*"}},
				})
				w.alerts.Put(edited)
				result := replay(t, d, view.ReplayRequest{IDs: []string{first.ID, first.ID}})
				if crash {
					s.kill()
					stop()
					_, _, stop = w.start()
				}
				wait(2 * time.Minute)
				if result.Replayed != 1 || len(result.Refused) > 0 {
					t.Errorf("%+v", result)
				}
				// A send that is under way as the process dies may be repeated (E3); here none is.
				if got := dest.ids(); !slices.Equal(got, []string{first.ID, first.ID}) {
					t.Fatalf("sent %v", got)
				}
				if n := dest.got[1]; !n.Replayed || n.Event.Metadata["summary"] != "now" || dest.got[0].Replayed {
					t.Errorf("%+v", n)
				}
				stop()
				if !w.bus.empty() {
					t.Error("something is left")
				}
			})
		})
	}
}

// TestE3ALetterThatACrashLeftIsNotSentTwice fails when a letter whose replay was published before a crash is sent by a second replay too.
func TestE3ALetterThatACrashLeftIsNotSentTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &refusing{}
		w.bus.pause = time.Second // the crash is before the bus hands out the replay's messages
		w.version("chat", "1", dest)
		d, s, stop := w.start()
		w.bus.publish(w.routed("chat", "app"))
		wait(time.Minute)
		dest.mended.Store(true)
		w.bus.faults = func(op string) error {
			if op == "letter" {
				return errCut
			}
			return nil
		}
		replay(t, d, view.ReplayRequest{State: view.StateDead})
		s.kill()
		stop()
		w.bus.faults = func(string) error { return nil }
		d, _, stop = w.start()
		wait(time.Minute)
		replay(t, d, view.ReplayRequest{State: view.StateDead})
		wait(5 * time.Minute)
		stop()
		if dest.count() != 1 || len(w.bus.deadLetters()) != 0 || !w.bus.empty() {
			t.Errorf("sent %v, %d letters are left", dest.ids(), len(w.bus.deadLetters()))
		}
	})
}

// TestTwoReplaysAtOnceAreOne fails when resend checks neither the waiting deliveries nor those it has just replayed.
func TestTwoReplaysAtOnceAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.destination("chat", dest)
		d, _, stop := w.start()
		first := w.routed("chat", "app")
		w.bus.publish(first)
		wait(time.Minute)
		var all sync.WaitGroup
		counts := make([]view.ReplayResult, 4)
		for i := range counts {
			all.Go(func() { counts[i] = replay(t, d, view.ReplayRequest{IDs: []string{first.ID}}) })
		}
		all.Wait()
		wait(time.Minute)
		n := 0
		for _, r := range counts {
			n += r.Replayed
		}
		if n != 1 || dest.count() != 2 {
			t.Errorf("%d replayed, sent %v: %+v", n, dest.ids(), counts)
		}
		if r := replay(t, d, view.ReplayRequest{IDs: []string{first.ID}}); r.Replayed != 1 {
			t.Errorf("a minute later: %+v", r)
		}
		wait(time.Minute)
		stop()
		if dest.count() != 3 {
			t.Errorf("sent %v", dest.ids())
		}
	})
}

// TestARefusedReplayStatesItsReason fails when a rule about the owner of a delivery, or about which deliveries can be sent again, is left out.
func TestARefusedReplayStatesItsReason(t *testing.T) {
	for why, tc := range map[string]struct {
		// dies has the delivery given up, else it is sent. After that the case makes its change.
		dies bool
		then func(w *world, d *event.Delivery)
	}{
		refusedNoProvider: {then: func(w *world, _ *event.Delivery) { w.destinations.Delete("team-a", "chat") }},
		refusedSuspended: {then: func(w *world, _ *event.Delivery) {
			w.destinations.Put("team-a", "chat", &Destination{UID: "p-chat", Sender: &sink{}, Suspended: true})
		}},
		"no such type": {then: func(w *world, _ *event.Delivery) {
			w.destinations.Put("team-a", "chat", &Destination{UID: "p-chat", Unsupported: true, NotReady: "no such type"})
		}},
		refusedAnew: {then: func(w *world, _ *event.Delivery) {
			w.destinations.Put("team-a", "chat", &Destination{UID: "another", Sender: &sink{}, Created: time.Now()})
		}},
		refusedAnew + " ": {dies: true, then: func(w *world, _ *event.Delivery) {
			w.destinations.Put("team-a", "chat", &Destination{UID: "another", Sender: &sink{}})
		}},
		refusedType: {then: func(w *world, _ *event.Delivery) {
			w.destinations.Put("team-a", "chat", &Destination{
				UID: "p-chat", Sender: &sink{}, Takes: func(provider.Notification) bool { return false },
			})
		}},
		refusedTooLarge: {dies: true, then: func(w *world, _ *event.Delivery) {
			w.bus.mu.Lock()
			defer w.bus.mu.Unlock()
			w.bus.dead[0].label = event.LabelTooLarge
		}},
		refusedNoAlert:        {then: func(w *world, d *event.Delivery) { w.alerts.Delete("team-a/" + d.Alert) }},
		refusedNoAlert + " ":  {then: func(w *world, d *event.Delivery) { w.alert("team-a", d.Alert, "another", "chat") }},
		refusedNoAlert + "  ": {dies: true, then: func(w *world, d *event.Delivery) { w.alert("team-a", d.Alert, "another", "chat") }},
		refusedInert: {then: func(w *world, d *event.Delivery) {
			a := Inert(AlertSpec{Namespace: "team-a", Name: d.Alert, UID: d.AlertUID, Provider: "chat"})
			w.alerts.Put(a)
		}},
		refusedMoved: {then: func(w *world, d *event.Delivery) { w.alert("team-a", d.Alert, d.AlertUID, "elsewhere") }},
		refusedNoEvent: {then: func(w *world, d *event.Delivery) {
			w.bus.mu.Lock()
			defer w.bus.mu.Unlock()
			delete(w.bus.records, d.Order)
		}},
		refusedTest: {then: func(w *world, d *event.Delivery) {
			w.bus.mu.Lock()
			defer w.bus.mu.Unlock()
			w.bus.sentLog[0].d.Alert = ""
		}},
	} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, dest := newWorld(t), &refusing{}
				dest.mended.Store(!tc.dies)
				w.version("chat", "1", dest)
				d, _, stop := w.start()
				first := w.routed("chat", "app")
				w.bus.publish(first)
				wait(time.Minute)
				tc.then(w, &first)
				dest.mended.Store(true)
				for range 2 {
					r := replay(t, d, view.ReplayRequest{IDs: []string{first.ID}})
					if r.Replayed != 0 || r.Refused[first.ID] != strings.TrimSpace(why) {
						t.Errorf("%+v", r)
					}
				}
				before := dest.count()
				wait(time.Minute)
				if n := dest.count(); n != before || !w.bus.empty() {
					t.Errorf("%d were sent", n-before)
				}
				stop()
			})
		})
	}
}

// TestWaitingAndUnknownDeliveriesAreNotReplayed fails when a delivery that waits is sent twice.
func TestWaitingAndUnknownDeliveriesAreNotReplayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.destination("chat", sendFunc(func(context.Context, provider.Notification) error {
			return failure(event.Retry, provider.LabelServer)
		}))
		d, _, stop := w.start()
		waits := w.routed("chat", "app")
		w.bus.publish(waits)
		wait(time.Minute)
		r := replay(t, d, view.ReplayRequest{IDs: []string{waits.ID, "nobody's"}})
		if r.Replayed != 0 || r.Refused[waits.ID] != refusedWaiting || r.Refused["nobody's"] != refusedUnknown {
			t.Errorf("%+v", r)
		}
		if r := replay(t, d, view.ReplayRequest{Provider: "chat"}); r.Replayed != 0 || len(r.Refused) != 0 {
			t.Errorf("%+v", r)
		}
		stop()
	})
}
