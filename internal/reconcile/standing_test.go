package reconcile

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	v1 "notifier/api/v1"
	"notifier/internal/alerts"
	"notifier/internal/fair"
	"notifier/internal/reconcile/kube"
)

// shown returns the delivery status of a live Provider.
func (w *world) shown() v1.DeliveryStatus {
	w.t.Helper()
	return w.live("Provider", "chat").(*v1.Provider).Status.DeliveryStatus
}

// since sets the time from which the worker counts.
func since(at time.Time) func(*alerts.Standing) { return func(s *alerts.Standing) { s.Since = at } }

func dead(n int) func(*alerts.Standing) { return func(s *alerts.Standing) { s.Dead = n } }

// Fails when a count or an outcome is not shown, when the oldest outcome is shown first, or when more than ten are shown. Fails when an
// unchanged object is written again.
func TestAStatusShowsWhatBecameOfItsDeliveries(t *testing.T) {
	play(t, oneOfEach(), func(w *world) {
		began := time.Now().Truncate(time.Second)
		s := faring("ok", "fine", waiting(3), dead(2), since(began))
		s.Failed = 1
		for i := range 12 {
			outcomeAt(began.Add(time.Duration(i)*time.Second), []string{"sent", "retry"}[i%2])(&s)
		}
		s.NextTry = began.Add(71 * time.Second)
		w.tell("Provider", "chat", s)
		got := w.shown()
		if len(got.Recent) != 10 || got.Pending != 3 || got.Dead != 2 || got.Delivered != 6 || got.Failed != 1 ||
			!got.CountedSince.Time.Equal(began) {
			t.Fatalf("got %+v", got)
		}
		failed := v1.DeliveryOutcome{
			Time: metav1.NewTime(began.Add(11 * time.Second)), Object: "Kustomization/app", Reason: "ReconciliationSucceeded", Outcome: "retry",
			Attempts: 1, Status: 503, Class: "http_5xx",
		}
		if diff := cmp.Diff(failed, got.Recent[0]); diff != "" {
			t.Error(diff)
		}
		next := metav1.NewTime(s.NextTry)
		failed.Failure, failed.NextTry = "HTTP 503", &next
		if diff := cmp.Diff(&failed, got.LastFailure); diff != "" {
			t.Error(diff)
		}
		if at := got.LastDelivery.Time.Time; !at.Equal(began.Add(10*time.Second)) || !got.Recent[9].Time.Time.Equal(began.Add(2*time.Second)) {
			t.Errorf("last delivery %v, oldest of the recent %v", at, got.Recent[9].Time)
		}
		before := w.writes()["update providers/status"]
		pass(2 * time.Hour)
		if n := w.writes()["update providers/status"] - before; n != 0 {
			t.Errorf("%d writes without news", n)
		}
		s.UID = "uid-alert"
		w.tell("Alert", "alert", s)
		a := w.live("Alert", "alert").(*v1.Alert).Status
		if a.Pending != 3 || len(a.Recent) != 10 || !a.LastSent.Equal(&a.LastDelivery.Time) {
			t.Errorf("of the Alert: %+v", a)
		}
	})
}

// Fails when a new worker removes values that it does not know, continues another worker's counts, or leaves counts that it knows to be
// wrong.
func TestAStatusIsRightAfterATakeover(t *testing.T) {
	play(t, oneOfEach(), func(w *world) {
		first := time.Now().Truncate(time.Second)
		old := faring("ok", "fine", waiting(5), dead(4), since(first))
		for i := range 9 {
			outcomeAt(first.Add(time.Duration(i)*time.Second), "sent")(&old)
		}
		w.tell("Provider", "chat", old)
		before := w.shown()
		w.tell("Provider", "chat", alerts.Standing{}) // of a new worker without data
		if diff := cmp.Diff(before, w.shown()); diff != "" {
			t.Errorf("changed by one that knows nothing: %s", diff)
		}
		w.ledger.set("Provider", "team-a", "chat", alerts.Standing{Counted: true, Dead: 1})
		w.ledger.all()
		w.settle()
		if got := w.shown(); got.Pending != 0 || got.Dead != 1 || got.Delivered != 9 || len(got.Recent) != 9 {
			t.Errorf("when it has counted: %+v", got)
		}
		second := first.Add(time.Hour)
		w.tell("Provider", "chat", faring("ok", "fine", since(second),
			outcomeAt(second.Add(time.Second), "retry"), outcomeAt(second.Add(2*time.Second), "sent")))
		got := w.shown()
		if got.Delivered != 1 || !got.CountedSince.Time.Equal(second) || len(got.Recent) != 10 ||
			!got.Recent[0].Time.Time.Equal(second.Add(2*time.Second)) || !got.Recent[2].Time.Time.Equal(first.Add(8*time.Second)) {
			t.Errorf("with news: %+v", got)
		}
	})
}

// slowClient delays each write of a status.
type slowClient struct {
	kube.Client[*v1.Provider]
	takes time.Duration
}

func (c slowClient) UpdateStatus(ctx context.Context, p *v1.Provider, o metav1.UpdateOptions) (*v1.Provider, error) {
	_ = fair.Sleep(ctx, c.takes)
	return c.Client.UpdateStatus(ctx, p, o)
}

// A namespace has reports on very many objects, and each write takes its time. Fails when the namespaces do not take turns.
func TestT6AFloodOfOutcomesDoesNotHoldUpOthersStatuses(t *testing.T) {
	const flood, write = 1000, 50 * time.Millisecond
	s := oneOfEach()
	for i := range flood {
		s.objects = append(s.objects, newProvider(fmt.Sprint("p", i), func(p *v1.Provider) { p.Namespace = "flood" }))
	}
	s.change = func(o *Options) {
		in := o.Clients.Providers.In
		o.Clients.Providers.In = func(namespace string) kube.Client[*v1.Provider] {
			return slowClient{in(namespace), write}
		}
	}
	play(t, s, func(w *world) {
		pass(time.Minute) // until the statuses of the start are written
		for i := range flood {
			name := fmt.Sprint("p", i)
			w.ledger.set("Provider", "flood", name, alerts.Standing{UID: "uid-" + name, Counted: true, Pending: 1})
			w.ledger.changed("Provider", "flood", name)
		}
		pass(time.Second)
		w.tell("Provider", "chat", faring("ok", "fine", waiting(1)))
		if got := w.shown(); got.Pending != 1 {
			t.Errorf("not written within three seconds: %+v", got)
		}
		if n := w.providers.statusQueue.Len(); n < flood/4 {
			t.Errorf("only %d of the flood still wait: it proves nothing", n)
		}
	})
}

// On the definitions of an earlier release, which lack the delivery status. Fails when each reconcile is a write that changes nothing, or
// when the fields that they have are not written.
func TestFieldsThatDefinitionsLackDoNotKeepTheRestFromBeingWritten(t *testing.T) {
	s := oneOfEach()
	s.prepare = func(w *world) {
		w.cluster.PrependReactor("update", "providers", func(a clienttesting.Action) (bool, runtime.Object, error) {
			kept := a.(clienttesting.UpdateAction).GetObject().DeepCopyObject().(*v1.Provider)
			kept.Status.DeliveryStatus = v1.DeliveryStatus{}
			return true, kept, w.cluster.Tracker.Update(resources["Provider"], kept, kept.Namespace)
		})
	}
	play(t, s, func(w *world) {
		at := time.Now().Truncate(time.Second)
		told := faring("failing", "HTTP 503", waiting(2), since(at), outcomeAt(at, "sent"))
		w.tell("Provider", "chat", told)
		if is := w.live("Provider", "chat").(*v1.Provider).Status; is.Waiting != 2 || is.LastDelivered == nil || is.Problem != "HTTP 503" {
			t.Errorf("not written: %+v", is)
		}
		before := w.writes()["update providers/status"]
		for range 20 {
			w.tell("Provider", "chat", told)
			pass(12 * time.Second)
		}
		if got := w.writes()["update providers/status"] - before; got > 1 {
			t.Errorf("%d writes in five minutes", got)
		}
	})
}

// Fails when losses that another worker showed stay for ever, or end within an hour.
func TestLossesThatAnotherWorkerShowedEndAfterAnHour(t *testing.T) {
	play(t, oneOfEach(), func(w *world) {
		at := time.Now().Truncate(time.Second)
		w.tell("Provider", "chat", alerts.Standing{UID: "uid-chat", Loss: alerts.Loss{Count: 1, At: at}})
		pass(30 * time.Minute)
		again := at.Add(30 * time.Minute)
		told := faring("ok", "fine", since(at), outcomeAt(again, "dead"))
		told.Loss = alerts.Loss{Count: 2, At: again}
		w.tell("Provider", "chat", told)
		w.tell("Provider", "chat", alerts.Standing{}) // of a new worker
		for _, step := range []struct {
			after time.Duration
			want  string
		}{{50 * time.Minute, "True DeliveryGivenUp"}, {20 * time.Minute, "False Succeeded"}} {
			pass(step.after)
			if got, _ := w.condition("Provider", "chat", deliveriesLostCondition); got != step.want {
				t.Errorf("%v later: %q, want %q", step.after, got, step.want)
			}
		}
	})
}

// E5: fails when a Provider that was mended is said to be unready until the next event, which may be days away: what waited has expired, so the
// worker has no other report.
func TestAMendedProviderIsNotSaidToBeUnready(t *testing.T) {
	s := oneOfEach()
	s.objects[2] = newProvider("chat", func(p *v1.Provider) { p.Spec.SecretRef = ref("late") })
	play(t, s, func(w *world) {
		w.tell("Provider", "chat", alerts.Standing{UID: "uid-chat", Health: alerts.Health{
			State: alerts.StateFailing, Reason: alerts.ReasonProviderNotReady, Message: "the Secret does not exist",
		}})
		if got, _ := w.condition("Provider", "chat", deliveringCondition); got != "False ProviderNotReady" {
			t.Fatalf("before: got %q", got)
		}
		w.applySecret(newSecret("late", "token", "t"))
		w.ready("Provider", "chat", "True Succeeded")
		if got, _ := w.condition("Provider", "chat", deliveringCondition); got != "" {
			t.Errorf("got %q", got)
		}
	})
}

// Fails when a Provider that was corrected after the time for which its dead letters are replayed is said to be refused, until the next event,
// which may be days away: whoever corrects it looks for another fault.
//
// Fails when the report of another worker on the present configuration is removed.
func TestACorrectedProviderIsNotSaidToBeRefusedAsItWas(t *testing.T) {
	refused := func(w *world) alerts.Standing {
		return alerts.Standing{UID: "uid-chat", Health: alerts.Health{
			State: alerts.StateFailing, Reason: alerts.ReasonFailed, Message: "HTTP 401; check the token",
			Version: w.options.Destinations.Get("team-a", "chat").Version,
		}}
	}
	secret := func(w *world) {
		right := newSecret("chat", "token", "right")
		right.ResourceVersion = "2"
		w.applySecret(right)
	}
	for name, correct := range map[string]func(w *world){
		"its Secret": secret,
		"its Secret, after another worker's report": func(w *world) {
			w.tell("Provider", "chat", alerts.Standing{})
			secret(w)
		},
		"its Secret, which was missing for a while": func(w *world) {
			w.tell("Provider", "chat", alerts.Standing{})
			w.removeSecret("chat")
			secret(w)
		},
		"its spec": func(w *world) {
			w.apply("Provider", newProvider("chat", func(p *v1.Provider) { p.Spec.Channel = "right" }))
		},
		"by another worker": func(w *world) {
			w.ledger.set("Provider", "team-a", "chat", alerts.Standing{})
			w.apply("Provider", newProvider("chat", func(p *v1.Provider) { p.Spec.Channel = "right" }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := oneOfEach()
			s.objects[2] = newProvider("chat", func(p *v1.Provider) { p.Spec.SecretRef = ref("chat") })
			s.secrets = append(s.secrets, newSecret("chat", "token", "wrong"))
			play(t, s, func(w *world) {
				w.tell("Provider", "chat", refused(w))
				if got, _ := w.condition("Provider", "chat", deliveringCondition); got != "False DeliveryFailed" {
					t.Fatalf("before: got %q", got)
				}
				correct(w)
				if got, message := w.condition("Provider", "chat", deliveringCondition); got != "" {
					t.Errorf("got %q, %q", got, message)
				}
				if p := w.live("Provider", "chat").(*v1.Provider); p.Status.Problem != "" {
					t.Errorf("its problem is %q", p.Status.Problem)
				}
				w.tell("Provider", "chat", refused(w))
				if got, _ := w.condition("Provider", "chat", deliveringCondition); got != "False DeliveryFailed" {
					t.Errorf("refused again: got %q", got)
				}
				w.tell("Provider", "chat", alerts.Standing{}) // of a new worker
				if got, _ := w.condition("Provider", "chat", deliveringCondition); got != "False DeliveryFailed" {
					t.Errorf("refused again, to a new worker: got %q", got)
				}
			})
		})
	}
}

// Fails when a Provider whose Secret was corrected while no process ran is said to be refused as it was, until the next event, which may be days
// away. Fails when a report on the present Secret is removed, or when a change of its labels counts.
func TestAProviderThatWasCorrectedWhileNothingRanIsNotSaidToBeRefused(t *testing.T) {
	hour := func(n int) metav1.Time {
		return metav1.NewTime(time.Date(1999, time.December, 31, n, 0, 0, 0, time.UTC))
	}
	const fields, labels = `{"f:data":{"f:token":{}}}`, `{"f:metadata":{"f:labels":{"f:a":{}}}}`
	for name, c := range map[string]struct {
		written, refused metav1.Time
		fields, want     string
	}{
		"corrected":                     {hour(4), hour(3), fields, ""},
		"refused again":                 {hour(3), hour(4), fields, "False DeliveryFailed"},
		"corrected before the report":   {hour(1), hour(2), fields, "False DeliveryFailed"},
		"labelled after the last fault": {hour(4), hour(3), labels, "False DeliveryFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := oneOfEach()
			s.objects[2] = newProvider("chat", func(p *v1.Provider) {
				p.Spec.SecretRef = ref("chat")
				p.Status.Conditions = []metav1.Condition{{
					Type: deliveringCondition, Status: metav1.ConditionFalse, Reason: alerts.ReasonFailed, Message: "HTTP 401; check the token",
					LastTransitionTime: hour(2), ObservedGeneration: 1,
				}}
				p.Status.LastFailure = &v1.DeliveryOutcome{Time: c.refused, Outcome: "dead"}
			})
			secret := newSecret("chat", "token", "right")
			secret.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", Time: &c.written, FieldsV1: metav1.NewFieldsV1(c.fields)}}
			s.secrets = append(s.secrets, secret)
			play(t, s, func(w *world) {
				w.ready("Provider", "chat", "True Succeeded")
				if got, message := w.condition("Provider", "chat", deliveringCondition); got != c.want {
					t.Errorf("got %q, %q, want %q", got, message, c.want)
				}
			})
		})
	}
}

// Fails when the status of an object of which nothing waits says when a delivery is tried again: it was sent, by this worker or another one.
func TestNoNextTryIsShownWhenNothingWaits(t *testing.T) {
	play(t, oneOfEach(), func(w *world) {
		began := time.Now().Truncate(time.Second)
		s := faring(alerts.StateFailing, "HTTP 503", waiting(1), since(began))
		outcomeAt(began, "retry")(&s)
		s.NextTry = began.Add(time.Minute)
		shows := func(when string, want bool) {
			t.Helper()
			if last := w.shown().LastFailure; last == nil || (last.NextTry != nil) != want {
				t.Errorf("%s: %+v", when, last)
			}
		}
		w.tell("Provider", "chat", s)
		shows("while it waits", true)
		sent := s
		waiting(0)(&sent)
		outcomeAt(began.Add(time.Minute), "sent")(&sent)
		w.tell("Provider", "chat", sent)
		shows("when it is sent", false)
		w.tell("Provider", "chat", s)
		w.tell("Provider", "chat", alerts.Standing{})
		shows("before another worker has counted", true)
		w.tell("Provider", "chat", alerts.Standing{Counted: true})
		shows("when another worker has sent it", false)
	})
}

// T6: an admission webhook selects one namespace, and hangs: each write of a status there takes ten seconds. Fails when the statuses of that
// namespace take all workers, and others' wait for one of them.
func TestT6SlowStatusesOfANamespaceDelayNoOthers(t *testing.T) {
	const flood, write = 100, 10 * time.Second
	s := oneOfEach()
	for i := range flood {
		s.objects = append(s.objects, newProvider(fmt.Sprint("p", i), func(p *v1.Provider) { p.Namespace = "flood" }))
	}
	s.change = func(o *Options) {
		in := o.Clients.Providers.In
		o.Clients.Providers.In = func(namespace string) kube.Client[*v1.Provider] {
			if namespace != "flood" {
				return in(namespace)
			}
			return slowClient{in(namespace), write}
		}
	}
	play(t, s, func(w *world) {
		for i := range 10 {
			w.tell("Provider", "chat", faring("ok", "fine", waiting(i)))
			pass(3 * time.Second)
			if got := w.shown(); got.Pending != int64(i) {
				t.Errorf("not written within three seconds: %+v", got)
			}
		}
		if n := w.providers.statusQueue.Len(); n == 0 {
			t.Error("none of the flood waits: it proves nothing")
		}
	})
}
