package reconcile

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	v1 "notifier/api/v1"
	"notifier/internal/alerts"
)

// Fails when the time of the last delivery decreases or is lost with its worker, or when a Provider that accepts deliveries shows waiting
// notifications.
func TestAProviderShowsItsLastSuccessAndWhatWaits(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 9, 0, 0, time.UTC)
	play(t, oneOfEach(), func(w *world) {
		for _, step := range []struct {
			told    alerts.Standing
			last    time.Time
			waiting int64
			problem string
		}{
			{faring("ok", "fine", waiting(3), outcomeAt(at, "sent")), at, 0, ""},
			{faring("failing", "HTTP 500", waiting(4), outcomeAt(at.Add(time.Minute), "sent")), at.Add(time.Minute), 4, "HTTP 500"},
			{faring("ok", "fine", waiting(4), outcomeAt(at.Add(time.Second), "sent")), at.Add(time.Minute), 0, ""},
			{faring("failing", "of a worker\nthat has not sent"), at.Add(time.Minute), 0, "of a worker that has not sent"},
			{faring("ok", "", waiting(7), func(s *alerts.Standing) { s.UID = "another" }), at.Add(time.Minute), 7, "of a worker that has not sent"},
		} {
			w.tell("Provider", "chat", step.told)
			status := w.live("Provider", "chat").(*v1.Provider).Status
			if status.LastDelivered == nil || !status.LastDelivered.Time.Equal(step.last) || status.Waiting != step.waiting ||
				status.Problem != step.problem {
				t.Errorf("after %+v: last %v, waiting %d, problem %q; want %v, %d, %q",
					step.told, status.LastDelivered, status.Waiting, status.Problem, step.last, step.waiting, step.problem)
			}
		}
	})
}

// Fails when an Alert that selects events all the time, and has no other change, costs more than one write of status in ten minutes.
func TestAnAlertShowsWhenItLastMatched(t *testing.T) {
	play(t, oneOfEach(), func(w *world) {
		before := w.writes()["update alerts/status"]
		w.tell("Alert", "alert", alerts.Standing{UID: "another", Matched: time.Now()})
		if shown := w.live("Alert", "alert").(*v1.Alert).Status.LastMatched; shown != nil {
			t.Errorf("shown of an earlier Alert of the name: %v", shown)
		}
		first := time.Now().Truncate(time.Second)
		for range 45 {
			w.tell("Alert", "alert", alerts.Standing{UID: "uid-alert", Matched: time.Now()})
			pass(37 * time.Second)
		}
		status := w.live("Alert", "alert").(*v1.Alert).Status
		if since := status.LastMatched.Sub(first); since < 20*time.Minute {
			t.Errorf("lastMatched is %v after the first", since)
		}
		if got := w.writes()["update alerts/status"] - before; got != 3 {
			t.Errorf("writes in half an hour: %d, want one in ten minutes", got)
		}
	})
}

// Fails when a problem is shown while all is well, when a lesser problem hides a greater one, or when it has several lines.
func TestTheProblemIsTheFirstThingThatIsWrong(t *testing.T) {
	play(t, oneOfEach(), func(w *world) {
		shown := func(kind, name, want string) {
			t.Helper()
			if got := *w.live(kind, name).Problem(); !strings.Contains(got, want) || want == "" && got != "" || strings.Contains(got, "\n") {
				t.Errorf("%s: problem %q, want %q", kind, got, want)
			}
		}
		shown("Receiver", "app", "")
		shown("Alert", "alert", "")
		shown("Provider", "chat", "")
		w.tell("Provider", "chat", alerts.Standing{UID: "uid-chat", Loss: alerts.Loss{Count: 1, At: time.Now(), Object: "o", Reason: "expired"}})
		shown("Provider", "chat", "1 given up")
		w.tell("Provider", "chat", faring("failing", "HTTP 403:\n no"))
		shown("Provider", "chat", "HTTP 403: no")
		w.apply("Provider", newProvider("chat", func(p *v1.Provider) { p.Spec.Address = "" }))
		shown("Provider", "chat", "spec.address is not set")
		shown("Alert", "alert", `Provider "chat" cannot be sent to (InvalidConfig)`)
		w.feed.put("Receiver/team-a/app", weakDenied)
		w.settle()
		shown("Receiver", "app", `"weak" may not patch`)
		w.removeSecret("hook")
		shown("Receiver", "app", "does not exist")
	})
}

// Fails when a refused webhook is not shown, or is shown after a later one was accepted. Fails also when a failed filter is not shown,
// whose webhook was accepted.
func TestAReceiversProblemIsTheLastWebhookThatWasRefused(t *testing.T) {
	r := newReceiver("app")
	at := func(second int64) *v1.ReceiverDelivery {
		return &v1.ReceiverDelivery{Time: metav1.Unix(second, 0), Result: "method", Reason: "method must be POST"}
	}
	failed := &v1.ReceiverDelivery{Time: metav1.Unix(5, 0), Result: "filter", Reason: "test it with has()"}
	mismatch := &v1.ReceiverDelivery{Time: metav1.Unix(5, 0), Result: "unauthentic", Reason: "signature mismatch"}
	for _, tc := range []struct {
		deliveries *v1.ReceiverDeliveries
		want       string
	}{
		{nil, ""},
		{&v1.ReceiverDeliveries{Last: at(5), LastError: failed}, "a filter failed for the last webhook: test it with has()"},
		{&v1.ReceiverDeliveries{Last: at(6), LastError: failed}, ""},
		{&v1.ReceiverDeliveries{Last: at(5)}, ""},
		{&v1.ReceiverDeliveries{LastError: at(5)}, "the last webhook was not accepted: method must be POST"},
		{&v1.ReceiverDeliveries{Last: at(4), LastError: at(5)}, "the last webhook was not accepted: method must be POST"},
		{&v1.ReceiverDeliveries{Last: at(6), LastError: at(5)}, ""},
		{
			&v1.ReceiverDeliveries{LastError: &v1.ReceiverDelivery{Time: metav1.Unix(5, 0), Result: "panic"}},
			"the last webhook was not accepted: panic",
		},
		{
			&v1.ReceiverDeliveries{LastError: mismatch}, "the last webhook was not accepted: signature mismatch; " +
				`compare the sender's secret with the key "token" of the Secret, in which a line end counts too`,
		},
	} {
		r.Status.Deliveries = tc.deliveries
		if got := problemOf(r); got != tc.want {
			t.Errorf("%+v: got %q, want %q", tc.deliveries, got, tc.want)
		}
	}
	r.Spec.Suspend = true
	if got := problemOf(r); !strings.Contains(got, "spec.suspend") {
		t.Errorf("suspended: %q", got)
	}
}

// Fails when the problem of a misspelt kind does not have the kind that is meant.
func TestTheProblemOfAMisspeltKindHasTheLikelyKind(t *testing.T) {
	r := newReceiver("app")
	r.Status.Conditions = []metav1.Condition{
		{Type: v1.WriteDeniedCondition, Status: metav1.ConditionTrue, Reason: v1.KindNotFoundReason, Message: "not served"},
		{Type: matchingCondition, Status: metav1.ConditionFalse, Reason: v1.UnknownKindReason, Message: "is GitRepository meant?"},
	}
	if got := problemOf(r); got != "is GitRepository meant?" {
		t.Errorf("got %q", got)
	}
	r.Status.Conditions[0].Reason, r.Status.Conditions[0].Message = v1.ForbiddenReason, "forbidden"
	if got := problemOf(r); got != "forbidden" {
		t.Errorf("with another refusal: %q", got)
	}
}

// Fails when an unchanged state causes another Event, in this term or the next, or when a new state causes none.
func TestAProblemIsReportedOncePerChange(t *testing.T) {
	play(t, oneOfEach(), func(w *world) {
		w.events.take()
		for _, step := range []struct {
			told alerts.Standing
			want int
		}{
			{faring("failing", "HTTP 500", waiting(1)), 1},
			{faring("failing", "HTTP 500", waiting(2)), 0},
			{faring("failing", "HTTP 403", waiting(2)), 1},
			{faring("ok", "fine"), 0},
			{faring("failing", "HTTP 403", waiting(2)), 1},
		} {
			w.tell("Provider", "chat", step.told)
			if events := w.events.take(); len(events) != step.want {
				t.Errorf("after %+v: %q, want %d", step.told, events, step.want)
			}
		}
		w.apply("Provider", newProvider("chat", func(p *v1.Provider) { p.Spec.Address = "" }))
		w.tell("Provider", "chat", faring("failing", "the address is empty", waiting(2)))
		told := 0
		for _, e := range w.events.take() {
			if strings.HasPrefix(e, "Provider ") {
				told++
			}
		}
		if told != 1 {
			t.Errorf("what keeps a Provider from being served is told %d times", told)
		}
	})
}

// On definitions without a status. Fails when a problem at work causes no Event, or when each report causes one.
func TestAProblemIsReportedWhereThereIsNoStatus(t *testing.T) {
	s := oneOfEach()
	s.prepare = func(w *world) {
		w.cluster.PrependReactor("update", "providers", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewNotFound(v1.Resource("providers").GroupResource(), "x")
		})
	}
	play(t, s, func(w *world) {
		w.events.take()
		for _, step := range []struct {
			told alerts.Standing
			want int
		}{
			{faring("failing", "HTTP 500", waiting(1)), 1},
			{faring("failing", "HTTP 500", waiting(2)), 0},
			{faring("ok", "fine"), 0},
			{faring("failing", "HTTP 500", waiting(2)), 1},
		} {
			w.tell("Provider", "chat", step.told)
			if events := w.events.take(); len(events) != step.want {
				t.Errorf("after %+v: %q, want %d", step.told, events, step.want)
			}
		}
	})
}

// On definitions with a status but without our fields, or those of this release. Fails when each report on a Provider causes a write that changes
// nothing.
func TestFieldsThatAreDroppedAreNotWrittenForEver(t *testing.T) {
	for name, keep := range map[string]func(v1.ProviderStatus) v1.ProviderStatus{
		"Flux's": func(s v1.ProviderStatus) v1.ProviderStatus {
			return v1.ProviderStatus{Conditions: s.Conditions}
		},
		"an earlier release's": func(s v1.ProviderStatus) v1.ProviderStatus {
			return v1.ProviderStatus{Conditions: s.Conditions, DeliveryStatus: v1.DeliveryStatus{Delivered: s.Delivered}}
		},
	} {
		s := oneOfEach()
		s.prepare = func(w *world) {
			w.cluster.PrependReactor("update", "providers", func(a clienttesting.Action) (bool, runtime.Object, error) {
				kept := a.(clienttesting.UpdateAction).GetObject().DeepCopyObject().(*v1.Provider)
				kept.Status = keep(kept.Status)
				return true, kept, w.cluster.Tracker.Update(resources["Provider"], kept, kept.Namespace)
			})
		}
		play(t, s, func(w *world) {
			before := w.writes()["update providers/status"]
			for range 20 {
				w.tell("Provider", "chat", faring("ok", "fine", outcomeAt(time.Now(), "sent")))
				pass(12 * time.Second)
			}
			if got := w.writes()["update providers/status"] - before; got > 2 {
				t.Errorf("%s: %d writes in five minutes", name, got)
			}
			w.ready("Provider", "chat", "True Succeeded")
		})
	}
}

// T6: a tenant writes zero times into the statuses of its objects. They are null when they are written back, and the API server drops null.
// Fails when that counts as a definition without our fields, so that no object of anybody shows them any more.
func TestT6ZeroTimesInAStatusHideNoFieldsOfOtherObjects(t *testing.T) {
	zero := &metav1.Time{}
	s := oneOfEach()
	s.prepare = func(w *world) {
		for _, kind := range []string{"providers", "alerts"} {
			w.cluster.PrependReactor("update", kind, func(a clienttesting.Action) (bool, runtime.Object, error) {
				sent, err := json.Marshal(a.(clienttesting.UpdateAction).GetObject())
				if err != nil {
					return true, nil, err
				}
				kept := a.(clienttesting.UpdateAction).GetObject().DeepCopyObject()
				reflect.ValueOf(kept).Elem().SetZero()
				if err := json.Unmarshal(sent, kept); err != nil { // drops null
					return true, nil, err
				}
				return true, kept, w.cluster.Tracker.Update(a.GetResource(), kept, a.GetNamespace())
			})
		}
	}
	play(t, s, func(w *world) {
		w.apply("Provider", newProvider("other", func(p *v1.Provider) { p.Status.LastDelivered, p.Status.CountedSince = zero, zero }))
		w.apply("Alert", newAlert("other", func(a *v1.Alert) {
			a.Status.LastMatched, a.Status.LastSent, a.Status.CountedSince = zero, zero, zero
		}))
		w.tell("Provider", "chat", faring("ok", "fine", outcomeAt(time.Now(), "sent")))
		w.tell("Alert", "alert", alerts.Standing{UID: "uid-alert", Matched: time.Now(), Counted: true, Pending: 3})
		chat, alert := w.live("Provider", "chat").(*v1.Provider).Status, w.live("Alert", "alert").(*v1.Alert).Status
		if chat.LastDelivered == nil || chat.LastDelivery == nil || alert.LastMatched == nil || alert.Pending != 3 {
			t.Errorf("shown: %+v of the Provider, %+v of the Alert", chat, alert)
		}
	})
}

// On the definitions of a release without lastHandledReplay. Fails when a handled replay, which they drop, hides the fields that they have.
func TestADroppedReplayHidesNoOtherFields(t *testing.T) {
	s := oneOfEach()
	s.prepare = func(w *world) {
		w.cluster.PrependReactor("update", "alerts", func(a clienttesting.Action) (bool, runtime.Object, error) {
			kept := a.(clienttesting.UpdateAction).GetObject().DeepCopyObject().(*v1.Alert)
			kept.Status.LastHandledReplay = ""
			return true, kept, w.cluster.Tracker.Update(resources["Alert"], kept, kept.Namespace)
		})
	}
	play(t, s, func(w *world) {
		w.feed.put(alertAsked+"/team-a/alert", `{"uid":"uid-alert","replay":"dead"}`)
		w.settle()
		w.tell("Alert", "alert", alerts.Standing{UID: "uid-alert", Matched: time.Now()})
		if w.live("Alert", "alert").(*v1.Alert).Status.LastMatched == nil {
			t.Error("lastMatched is not shown")
		}
	})
}
