package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	v1 "notifier/api/v1"
	"notifier/internal/alerts"
)

// writes returns the number of requests that change something, by verb and kind.
func (w *world) writes() map[string]int {
	n := map[string]int{}
	for _, a := range w.cluster.Actions() {
		if verb := a.GetVerb(); verb != "get" && verb != "list" && verb != "watch" {
			n[verb+" "+a.GetResource().Resource+"/"+a.GetSubresource()]++
		}
	}
	return n
}

func oneOfEach() settings {
	return settings{
		objects: []runtime.Object{newReceiver("app"), newAlert("alert"), newProvider("chat")},
		secrets: []*corev1.Secret{newSecret("hook", "token", "t")},
	}
}

// Fails when a follower writes, or when a new leader does not reconcile the objects that are compiled already.
func TestOnlyTheLeaderWrites(t *testing.T) {
	s := oneOfEach()
	s.follower = true
	play(t, s, func(w *world) {
		<-w.Complete()
		w.settle()
		if got := w.writes(); len(got) != 0 || w.events.take() != nil {
			t.Errorf("a follower wrote %v", got)
		}
		if w.hooks.get("team-a/app") == nil || len(w.selected("team-a")) != 1 || w.options.Destinations.Get("team-a", "chat") == nil {
			t.Error("a follower does not serve")
		}
		ctx, stop := context.WithCancel(w.t.Context())
		ended := make(chan error)
		go func() { ended <- w.Lead(ctx) }()
		w.settle()
		w.ready("Receiver", "app", "True Succeeded")
		w.ready("Alert", "alert", "True Succeeded")
		w.ready("Provider", "chat", "True Succeeded")
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		before := len(w.cluster.Actions())
		w.apply("Provider", newProvider("chat", func(p *v1.Provider) { p.Spec.Address = "" }))
		if got := len(w.cluster.Actions()); got != before {
			t.Error("a former leader writes on")
		}
	})
}

// Fails when the write of a status causes another, or when a status is written before all objects are compiled.
func TestEachStatusIsWrittenOnce(t *testing.T) {
	play(t, oneOfEach(), func(w *world) {
		pass(time.Hour)
		for _, kind := range []string{"receivers", "alerts", "providers"} {
			if got := w.writes()["update "+kind+"/status"]; got != 1 {
				t.Errorf("%s: %d writes, want 1", kind, got)
			}
		}
	})
}

func TestAConflictIsWrittenAgain(t *testing.T) {
	s := oneOfEach()
	conflicts := 3
	s.prepare = func(w *world) {
		w.cluster.PrependReactor("update", "alerts", func(clienttesting.Action) (bool, runtime.Object, error) {
			if conflicts > 0 {
				conflicts--
				return true, nil, apierrors.NewConflict(v1.Resource("alerts").GroupResource(), "alert", errors.New("changed"))
			}
			return false, nil, nil
		})
	}
	play(t, s, func(w *world) { w.ready("Alert", "alert", "True Succeeded") })
}

// On Flux's own CRDs. Fails when the missing subresource is an error, when faults cause no Event, or when every start records an Event
// for each good object.
func TestFaultsOfAKindWithoutStatusAreReportedByEvents(t *testing.T) {
	s := oneOfEach()
	s.objects = append(s.objects, newProvider("bad", func(p *v1.Provider) { p.Spec.Address = "" }))
	s.prepare = func(w *world) {
		w.cluster.PrependReactor("update", "providers", func(a clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewNotFound(v1.Resource("providers").GroupResource(), "x")
		})
	}
	play(t, s, func(w *world) {
		var told []string
		for _, e := range w.events.take() {
			if strings.HasPrefix(e, "Provider") {
				told = append(told, e)
			}
		}
		if len(told) != 1 || !strings.Contains(told[0], "Warning InvalidConfig") {
			t.Errorf("events: %q", told)
		}
		w.apply("Provider", newProvider("bad"))
		if told := w.events.take(); len(told) != 1 || !strings.Contains(told[0], "Normal Succeeded") {
			t.Errorf("events after it was mended: %q", told)
		}
		if n := w.writes()["update providers/status"]; n > 2 {
			t.Errorf("%d attempts to write a status that does not exist", n)
		}
	})
}

// Fails when the finalizer stays, when another finalizer is removed, or when an object without deletion is changed.
func TestAFinalizerThatFluxLeftBlocksNoDeletion(t *testing.T) {
	now := metav1.Now()
	leaving := newReceiver("leaving", func(r *v1.Receiver) {
		r.DeletionTimestamp, r.Finalizers = &now, []string{"other/one", v1.Finalizer}
	})
	staying := newReceiver("staying", func(r *v1.Receiver) { r.Finalizers = []string{v1.Finalizer} })
	alert := newAlert("leaving", func(a *v1.Alert) { a.DeletionTimestamp, a.Finalizers = &now, []string{v1.Finalizer, "other/one"} })
	s := settings{objects: []runtime.Object{leaving, staying, alert}, secrets: []*corev1.Secret{newSecret("hook", "token", "t")}}
	var patches []string
	s.prepare = func(w *world) {
		w.cluster.PrependReactor("patch", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
			p := a.(clienttesting.PatchAction)
			patches = append(patches, fmt.Sprintf("%s/%s %s", a.GetResource().Resource, p.GetName(), p.GetPatch()))
			return false, nil, nil
		})
	}
	play(t, s, func(w *world) {
		for kind, name := range map[string]string{"Receiver": "leaving", "Alert": "leaving"} {
			if got := w.live(kind, name).GetFinalizers(); len(got) != 1 || got[0] != "other/one" {
				t.Errorf("%s: finalizers %v", kind, got)
			}
		}
		if got := w.live("Receiver", "staying").GetFinalizers(); len(got) != 1 {
			t.Errorf("finalizers of one that stays: %v", got)
		}
		if len(patches) != 2 {
			t.Errorf("patches: %q", patches)
		}
		want := `receivers/leaving [{"op":"test","path":"/metadata/finalizers/1","value":"finalizers.fluxcd.io"},` +
			`{"op":"remove","path":"/metadata/finalizers/1"}]`
		if patches[0] != want && patches[1] != want {
			t.Errorf("got %q, want %q", patches, want)
		}
		if w.hooks.get("team-a/leaving") != nil || w.hooks.get("team-a/staying") == nil {
			t.Error("the one that leaves is served, or the one that stays is not")
		}
	})
}

func TestHealthBecomesAConditionBesideReady(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 14, 5, 0, time.UTC)
	loss := func(count int, reason string) alerts.Loss {
		return alerts.Loss{Count: count, At: at, Object: "kustomization/app.team-a", Reason: reason}
	}
	for name, tc := range map[string]struct {
		// key and value are of the feed; standing is that of an Alert or a Provider.
		key, value      string
		standing        alerts.Standing
		kind, object    string
		condition, want string
		says            string
		// warns is the reason of the expected Warning.
		warns string
	}{
		"a Provider that delivers": {
			kind: "Provider", object: "chat", condition: deliveringCondition, want: "True Delivered", says: "accepted",
			standing: alerts.Standing{UID: "uid-chat", Health: alerts.Health{State: alerts.StateOK, Reason: "Delivered", Message: "accepted"}},
		},
		"a Provider that fails": {
			kind: "Provider", object: "chat", condition: deliveringCondition, want: "False DeliveryRetrying",
			standing: alerts.Standing{UID: "uid-chat", Health: alerts.Health{State: alerts.StateFailing, Reason: "DeliveryRetrying", Message: "no connection"}},
			says:     "no connection", warns: "DeliveryRetrying",
		},
		"an Alert whose patterns are too expensive": {
			kind: "Alert", object: "alert", condition: matchingCondition, want: "False PatternsTooExpensive", says: "cut short",
			standing: alerts.Standing{UID: "uid-alert", Health: alerts.Health{State: alerts.StateFailing, Reason: "PatternsTooExpensive", Message: "cut short"}},
			warns:    "PatternsTooExpensive",
		},
		"an Alert that lost deliveries": {
			kind: "Alert", object: "alert", condition: deliveriesLostCondition, want: "True DeliveryGivenUp",
			standing: alerts.Standing{UID: "uid-alert", Loss: loss(3, "HTTP 403")},
			says:     "3 given up, the last at 2026-01-02T03:14:05Z, about kustomization/app.team-a: HTTP 403",
		},
		"a Provider that lost deliveries": {
			kind: "Provider", object: "chat", condition: deliveriesLostCondition, want: "True DeliveryGivenUp",
			standing: alerts.Standing{UID: "uid-chat", Loss: loss(1, "expired")},
			says:     "1 given up, the last at 2026-01-02T03:14:05Z, about kustomization/app.team-a: expired",
		},
		"an Alert whose losses are old, which were never shown": {
			kind: "Alert", object: "alert", condition: deliveriesLostCondition, standing: alerts.Standing{UID: "uid-alert", Loss: alerts.Loss{At: at}},
		},
		"a Receiver whose writes are refused": {
			key: "Receiver/team-a/app", kind: "Receiver", object: "app", condition: v1.WriteDeniedCondition, want: "True Forbidden",
			value: `{"uid":"uid-app","denied":[{"serviceAccount":"weak","resource":"gitrepositories.source.toolkit.fluxcd.io",` +
				`"object":"app","message":"no"}]}`,
			says: `service account "weak" may not patch gitrepositories.source.toolkit.fluxcd.io "app": no`, warns: "Forbidden",
		},
		"a Receiver that never was refused": {
			key: "Receiver/team-a/app", kind: "Receiver", object: "app", condition: v1.WriteDeniedCondition, value: `{"uid":"uid-app"}`,
		},
		"what is known of an earlier object of the name": {
			kind: "Provider", object: "chat", condition: deliveringCondition,
			standing: alerts.Standing{UID: "another", Health: alerts.Health{State: alerts.StateFailing, Reason: "DeliveryFailed"}},
		},
		"a report that does not decode": {
			key: "Receiver/team-a/app", kind: "Receiver", object: "app", condition: v1.WriteDeniedCondition, value: `{`,
		},
		"a key of no kind here": {
			key: "Secret/team-a/app", kind: "Receiver", object: "app", condition: v1.WriteDeniedCondition, value: `{}`,
		},
		"a key of an earlier release": {
			key: "Provider/team-a/chat", kind: "Provider", object: "chat", condition: deliveringCondition,
			value: `{"uid":"uid-chat","state":"failing","reason":"DeliveryFailed"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, oneOfEach(), func(w *world) {
				w.events.take()
				if tc.key != "" {
					w.feed.put(tc.key, tc.value)
					w.settle()
				} else {
					w.tell(tc.kind, tc.object, tc.standing)
				}
				got, message := w.condition(tc.kind, tc.object, tc.condition)
				if got != tc.want || message != tc.says {
					t.Errorf("got %q %q\nwant %q %q", got, message, tc.want, tc.says)
				}
				w.ready(tc.kind, tc.object, "True Succeeded")
				events := w.events.take()
				switch {
				case tc.warns == "" && events != nil:
					t.Errorf("events: %q", events)
				case tc.warns != "" && (len(events) != 1 || !strings.Contains(events[0], " Warning "+tc.warns+": "+tc.says)):
					t.Errorf("events: %q, want one Warning %s: %s", events, tc.warns, tc.says)
				}
			})
		})
	}
}

// weakDenied is a report about the Receiver "app".
const weakDenied = `{"uid":"uid-app","denied":[{"serviceAccount":"weak","resource":"x","object":"app"}]}`

// T2: fails when the condition stays after the write was allowed.
func TestWriteDeniedIsTakenBack(t *testing.T) {
	play(t, oneOfEach(), func(w *world) {
		w.feed.put("Receiver/team-a/app", weakDenied)
		w.settle()
		for _, cleared := range []string{`{"uid":"uid-app"}`, `{}`} {
			w.feed.put("Receiver/team-a/app", cleared)
			w.settle()
			if got, _ := w.condition("Receiver", "app", v1.WriteDeniedCondition); got != "False Succeeded" {
				t.Errorf("after %s: got %q", cleared, got)
			}
		}
	})
}

// Fails when a new leader removes conditions of which it has no report yet.
func TestANewLeaderKeepsTheHealthThatIsShown(t *testing.T) {
	s := oneOfEach()
	s.objects[2] = newProvider("chat", func(p *v1.Provider) {
		meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{Type: deliveringCondition, Status: "False", Reason: "DeliveryFailed"})
	})
	play(t, s, func(w *world) {
		w.ready("Provider", "chat", "True Succeeded")
		if got, _ := w.condition("Provider", "chat", deliveringCondition); got != "False DeliveryFailed" {
			t.Errorf("got %q", got)
		}
	})
}

// Fails when a replica that leads again shows the feed's reports of its former term: another replica led meanwhile.
func TestAFormerLeaderForgetsTheHealthThatItKnew(t *testing.T) {
	s := oneOfEach()
	s.follower = true
	play(t, s, func(w *world) {
		term := func(during func()) {
			ctx, stop := context.WithCancel(w.t.Context())
			ended := make(chan error)
			go func() { ended <- w.Lead(ctx) }()
			w.settle()
			during()
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		term(func() {
			w.feed.put("Receiver/team-a/app", weakDenied)
			w.settle()
			if got, _ := w.condition("Receiver", "app", v1.WriteDeniedCondition); got != "True Forbidden" {
				t.Errorf("got %q", got)
			}
		})
		if err := w.feed.Put(w.t.Context(), "Receiver/team-a/app", nil); err != nil {
			t.Fatal(err)
		}
		r := w.live("Receiver", "app").DeepCopyObject().(*v1.Receiver)
		meta.RemoveStatusCondition(r.Conditions(), v1.WriteDeniedCondition)
		if err := w.cluster.Tracker.Update(resources["Receiver"], r, r.Namespace); err != nil {
			t.Fatal(err)
		}
		term(func() {
			w.ready("Receiver", "app", "True Succeeded")
			if got, _ := w.condition("Receiver", "app", v1.WriteDeniedCondition); got != "" {
				t.Errorf("shown again: %q", got)
			}
		})
		if n := len(w.health.reports); n != 0 {
			t.Errorf("%d reports are kept", n)
		}
	})
}

// Fails when keys that were deleted while the feed was broken are kept.
func TestAFeedThatBrokeIsFollowedFromItsBeginning(t *testing.T) {
	play(t, oneOfEach(), func(w *world) {
		w.feed.put("Loop/team-a/app", `{"uid":"uid-app"}`)
		w.report("r1")
		w.feed.broken <- errors.New("the bus is away")
		pass(time.Second)
		for _, key := range []string{"Loop/team-a/app", "Deliveries/team-a/app/r1"} {
			if err := w.feed.Put(w.t.Context(), key, nil); err != nil {
				t.Fatal(err)
			}
		}
		w.feed.put("Receiver/team-a/app", weakDenied)
		pass(feedPause)
		if kept := w.health.reports; len(kept) != 1 || kept["Receiver/team-a/app"].uid != "uid-app" {
			t.Errorf("reports of health: %v", kept)
		}
	})
}

// Fails when a start records an Event for a good object that existed before. Fails when it records none for a fault, or for a later
// change.
func TestAStartTellsOnlyFaultsOfWhatItFinds(t *testing.T) {
	s := settings{
		objects: []runtime.Object{newReceiver("app"), newProvider("chat"), newAlert("all"), newReceiver("bad", func(r *v1.Receiver) {
			r.Spec.SecretRef.Name = "absent"
		})},
		secrets: []*corev1.Secret{newSecret("hook", "token", "t1")},
	}
	play(t, s, func(w *world) {
		w.ready("Receiver", "app", "True Succeeded")
		w.ready("Provider", "chat", "True Succeeded")
		w.ready("Alert", "all", "True Succeeded")
		events := w.events.take()
		if len(events) != 1 || !strings.Contains(events[0], "Receiver team-a/bad uid-bad Warning") {
			t.Errorf("events of a start: %q", events)
		}
		w.applySecret(newSecret("absent", "token", "t2"))
		pass(10 * time.Second)
		w.apply("Provider", newProvider("new"))
		w.apply("Provider", newProvider("chat", func(p *v1.Provider) { p.Spec.Address = "https://example.com/other" }))
		if events := w.events.take(); len(events) != 3 {
			t.Errorf("events of changes: %q", events)
		}
	})
}
