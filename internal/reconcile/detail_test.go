package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	v1 "notifier/api/v1"
	"notifier/api/v1beta3"
)

// delivery is a report about the Provider "chat".
func delivery(state, message string, pending int, lastSuccess time.Time) string {
	return fmt.Sprintf(`{"uid":"uid-chat","state":%q,"reason":"R","message":%q,"pending":%d,"lastSuccess":%q}`,
		state, message, pending, lastSuccess.UTC().Format(time.RFC3339))
}

// Fails when a time is shown that lies before the object was made, when it goes backwards, or when waiting notifications are shown of a
// Provider that takes what is sent.
func TestAProviderShowsItsLastSuccessAndWhatWaits(t *testing.T) {
	made := time.Date(2026, 1, 2, 3, 9, 0, 0, time.UTC)
	s := oneOfEach()
	s.objects[2] = newProvider("chat", func(p *v1beta3.Provider) { p.CreationTimestamp = metav1.NewTime(made) })
	play(t, s, func(w *world) {
		for _, step := range []struct {
			report  string
			last    time.Time
			waiting int64
			problem string
		}{
			{delivery("ok", "fine", 3, made.Add(30*time.Second)), made, 0, ""},
			{delivery("failing", "HTTP 500", 4, made.Add(11*time.Minute+7*time.Second)), made.Add(11*time.Minute + 7*time.Second), 4, "HTTP 500"},
			{delivery("ok", "fine", 4, made.Add(12*time.Minute)), made.Add(11*time.Minute + 7*time.Second), 0, ""},
			{
				`{"uid":"uid-chat","state":"failing","reason":"R","message":"of a process\nthat has not sent"}`,
				made.Add(11*time.Minute + 7*time.Second), 0, "of a process that has not sent",
			},
		} {
			w.feed.put("Provider/team-a/chat", step.report)
			w.settle()
			status := w.live("Provider", "chat").(*v1beta3.Provider).Status
			if status.LastDelivered == nil || !status.LastDelivered.Time.Equal(step.last) || status.Waiting != step.waiting ||
				status.Problem != step.problem {
				t.Errorf("after %s: last %v, waiting %d, problem %q; want %v, %d, %q",
					step.report, status.LastDelivered, status.Waiting, status.Problem, step.last, step.waiting, step.problem)
			}
		}
	})
}

// Fails when an Alert that is active costs more than a write of status in ten minutes for each of the two times.
func TestAnAlertShowsWhenItLastMatchedAndWasSent(t *testing.T) {
	play(t, oneOfEach(), func(w *world) {
		before := w.writes()["update alerts/status"]
		report := func(kind, uid string) {
			w.feed.put(kind+"/team-a/alert", fmt.Sprintf(`{"uid":%q,"at":%q}`, uid, time.Now().UTC().Format(time.RFC3339Nano)))
			w.settle()
		}
		report("AlertMatched", "another")
		if shown := w.live("Alert", "alert").(*v1beta3.Alert).Status.LastMatched; shown != nil {
			t.Errorf("shown of an earlier Alert of the name: %v", shown)
		}
		first := time.Now().Truncate(time.Second)
		for range 45 {
			report("AlertMatched", "uid-alert")
			report("AlertSent", "uid-alert")
			pass(30 * time.Second)
		}
		status := w.live("Alert", "alert").(*v1beta3.Alert).Status
		if since := status.LastMatched.Sub(first); since < 20*time.Minute {
			t.Errorf("lastMatched is %v after the first", since)
		}
		if since := status.LastSent.Sub(first); since < 20*time.Minute {
			t.Errorf("lastSent is %v after the first", since)
		}
		if got := w.writes()["update alerts/status"] - before; got != 6 {
			t.Errorf("writes in half an hour: %d, want two in ten minutes", got)
		}
	})
}

// Fails when a problem is told while all is well, when a lesser one hides a greater, or when it is of several lines.
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
		w.feed.put("ProviderLosses/team-a/chat", `{"uid":"uid-chat","count":1,"at":"2026-01-02T03:14:05Z","object":"o","reason":"expired"}`)
		w.settle()
		shown("Provider", "chat", "1 given up")
		w.feed.put("Provider/team-a/chat", delivery("failing", "HTTP 403:\n no", 0, time.Time{}))
		w.settle()
		shown("Provider", "chat", "HTTP 403: no")
		w.apply("Provider", newProvider("chat", func(p *v1beta3.Provider) { p.Spec.Address = "" }))
		shown("Provider", "chat", "address is empty")
		shown("Alert", "alert", `Provider "chat" cannot be sent to (InvalidConfig)`)
		w.feed.put("Receiver/team-a/app", weakDenied)
		w.settle()
		shown("Receiver", "app", `"weak" may not patch`)
		w.removeSecret("hook")
		shown("Receiver", "app", "does not exist")
	})
}

// Fails when a webhook that was refused is not told, or is told after a later one was accepted.
func TestAReceiversProblemIsTheLastWebhookThatWasRefused(t *testing.T) {
	r := newReceiver("app")
	at := func(second int64) *v1.ReceiverDelivery {
		return &v1.ReceiverDelivery{Time: metav1.Unix(second, 0), Result: "method", Reason: "method must be POST"}
	}
	for _, tc := range []struct {
		deliveries *v1.ReceiverDeliveries
		want       string
	}{
		{nil, ""},
		{&v1.ReceiverDeliveries{Last: at(5)}, ""},
		{&v1.ReceiverDeliveries{LastError: at(5)}, "the last webhook was not accepted: method must be POST"},
		{&v1.ReceiverDeliveries{Last: at(4), LastError: at(5)}, "the last webhook was not accepted: method must be POST"},
		{&v1.ReceiverDeliveries{Last: at(6), LastError: at(5)}, ""},
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

// Fails when a state that goes on is told again, by this leadership or the next, or when a new one is not told.
func TestATroubleIsToldOnceAChange(t *testing.T) {
	play(t, oneOfEach(), func(w *world) {
		w.events.take()
		for _, step := range []struct {
			report string
			want   int
		}{
			{delivery("failing", "HTTP 500", 1, time.Time{}), 1},
			{delivery("failing", "HTTP 500", 2, time.Time{}), 0},
			{delivery("failing", "HTTP 403", 2, time.Time{}), 1},
			{delivery("ok", "fine", 0, time.Now()), 0},
			{delivery("failing", "HTTP 403", 2, time.Now()), 1},
		} {
			w.feed.put("Provider/team-a/chat", step.report)
			w.settle()
			if events := w.events.take(); len(events) != step.want {
				t.Errorf("after %s: %q, want %d", step.report, events, step.want)
			}
		}
		w.apply("Provider", newProvider("chat", func(p *v1beta3.Provider) { p.Spec.Address = "" }))
		w.feed.put("Provider/team-a/chat", delivery("failing", "the address is empty", 2, time.Now()))
		w.settle()
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

// On definitions without a status. Fails when trouble at work is not told there, or is told with each report.
func TestATroubleIsToldWhereThereIsNoStatus(t *testing.T) {
	s := oneOfEach()
	s.prepare = func(w *world) {
		w.cluster.PrependReactor("update", "providers", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewNotFound(v1beta3.Resource("providers").GroupResource(), "x")
		})
	}
	play(t, s, func(w *world) {
		w.events.take()
		for _, step := range []struct {
			report string
			want   int
		}{
			{delivery("failing", "HTTP 500", 1, time.Time{}), 1},
			{delivery("failing", "HTTP 500", 2, time.Time{}), 0},
			{delivery("ok", "fine", 0, time.Now()), 0},
			{delivery("failing", "HTTP 500", 2, time.Now()), 1},
		} {
			w.feed.put("Provider/team-a/chat", step.report)
			w.settle()
			if events := w.events.take(); len(events) != step.want {
				t.Errorf("after %s: %q, want %d", step.report, events, step.want)
			}
		}
	})
}

// On definitions that have a status and no fields of ours. Fails when each report on a Provider is a write that changes nothing.
func TestFieldsThatAreDroppedAreNotWrittenForEver(t *testing.T) {
	s := oneOfEach()
	s.prepare = func(w *world) {
		w.cluster.PrependReactor("update", "providers", func(a clienttesting.Action) (bool, runtime.Object, error) {
			kept := a.(clienttesting.UpdateAction).GetObject().DeepCopyObject().(*v1beta3.Provider)
			kept.Status = v1beta3.ProviderStatus{Conditions: kept.Status.Conditions}
			return true, kept, w.cluster.Tracker.Update(resources["Provider"], kept, kept.Namespace)
		})
	}
	play(t, s, func(w *world) {
		before := w.writes()["update providers/status"]
		for range 20 {
			w.feed.put("Provider/team-a/chat", delivery("ok", "fine", 0, time.Now()))
			pass(15 * time.Second)
		}
		if got := w.writes()["update providers/status"] - before; got > 2 {
			t.Errorf("%d writes in five minutes", got)
		}
		w.ready("Provider", "chat", "True Succeeded")
	})
}
