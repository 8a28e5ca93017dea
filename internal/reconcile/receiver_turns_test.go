package reconcile

import (
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	v1 "notifier/api/v1"
	"notifier/internal/receiver"
	"notifier/internal/receiver/receivertest"
)

// owe uses up the namespace's time of compiling, so that its next compile is delayed for half a minute.
func (w *world) owe(namespace string) {
	w.t.Helper()
	for putOff := time.Duration(0); putOff < 30*time.Second; {
		var err error
		if putOff, err = w.compiling.Compile(w.t.Context(), namespace, func() { pass(time.Second) }); err != nil {
			w.t.Fatal(err)
		}
	}
}

func filtered(namespace, name, filter string) *v1.Receiver {
	return newReceiver(name, func(r *v1.Receiver) { r.Namespace, r.Spec.ResourceFilter = namespace, filter })
}

func secretsOf(namespaces ...string) []*corev1.Secret {
	var secrets []*corev1.Secret
	for _, namespace := range namespaces {
		s := newSecret("hook", "token", "t")
		s.Namespace = namespace
		secrets = append(secrets, s)
	}
	return secrets
}

// T6: fails when the Receivers of a namespace that has used up its time are compiled anyway, or when their former hooks are removed
// meanwhile. Fails when a Receiver without expressions, or of another namespace, waits with them.
func TestT6TheHeavyTenantIsServedAsBeforeUntilItsTurn(t *testing.T) {
	s := settings{
		objects: []runtime.Object{filtered("team-a", "app", "req.a == 1"), newReceiver("plain")}, secrets: secretsOf("team-a", "team-b"),
	}
	play(t, s, func(w *world) {
		before := w.hooks.get("team-a/app")
		if before == nil {
			t.Fatal("not served")
		}
		w.owe("team-a")
		w.apply(v1.ReceiverKind, newReceiver("plain", func(r *v1.Receiver) { r.Spec.Suspend = true }))
		if plain := w.hooks.get("team-a/plain"); plain == nil || !plain.Suspended {
			t.Error("a Receiver without expressions waits")
		}
		w.owe("team-a")
		w.apply(v1.ReceiverKind, filtered("team-a", "app", "req.a == 2"))
		w.apply(v1.ReceiverKind, filtered("team-b", "other", "req.a == 1"))
		if w.hooks.get("team-a/app") != before {
			t.Error("the Receiver was compiled, or is not served, before its turn")
		}
		if w.hooks.get("team-b/other") == nil {
			t.Error("a Receiver of another namespace waits")
		}
		pass(time.Minute)
		if now := w.hooks.get("team-a/app"); now == nil || now == before {
			t.Error("the Receiver was not compiled in its turn")
		}
		if got := w.live(v1.ReceiverKind, "app").(*v1.Receiver).Status.ObservedGeneration; got != 2 {
			t.Errorf("the status is of generation %d", got)
		}
		w.owe("team-a")
		again := filtered("team-a", "app", "req.a == 2")
		again.UID = "another"
		w.apply(v1.ReceiverKind, again)
		if w.hooks.get("team-a/app") != nil {
			t.Error("what a Receiver served that is no more is still served")
		}
	})
}

// T6: fails when the start waits for a namespace that has used up its time.
func TestT6TheStartDoesNotWaitForTheHeavyTenant(t *testing.T) {
	s := settings{
		objects: []runtime.Object{filtered("team-a", "app", "req.a == 1"), filtered("team-b", "app", "req.a == 1")},
		secrets: secretsOf("team-a", "team-b"), prepare: func(w *world) { w.owe("team-a") },
	}
	play(t, s, func(w *world) {
		if !w.hooks.complete || w.hooks.get("team-b/app") == nil || w.hooks.get("team-a/app") != nil {
			t.Errorf("complete %t, the other's served %t, the first one's %t",
				w.hooks.complete, w.hooks.get("team-b/app") != nil, w.hooks.get("team-a/app") != nil)
		}
		pass(time.Minute)
		if w.hooks.get("team-a/app") == nil {
			t.Error("not compiled in its turn")
		}
	})
}

// T4: fails when the appliers are not told that a Receiver waits for its turn, so that its stored webhooks would be given up; and when they
// are told so of one that is compiled, refused or gone.
func TestT4AReceiverThatWaitsForItsTurnIsNotTakenForGone(t *testing.T) {
	waiting := filtered("team-a", "app", "req.a == 1")
	s := settings{objects: []runtime.Object{waiting}, secrets: secretsOf("team-a"), prepare: func(w *world) { w.owe("team-a") }}
	play(t, s, func(w *world) {
		want := func(waits, lives bool, when string) {
			t.Helper()
			if _, live := w.Receivers().Live("team-a", "app"); live != lives {
				t.Errorf("%s: live %t, want %t", when, live, lives)
			}
			if got := w.Receivers().Uncompiled("team-a", "app", string(waiting.UID)); got != waits {
				t.Errorf("%s: it waits: %t, want %t", when, got, waits)
			}
		}
		want(true, false, "at the start")
		if w.Receivers().Uncompiled("team-a", "app", "another") {
			t.Error("a former Receiver of its name waits")
		}
		pass(time.Minute)
		want(false, true, "after its turn")
		w.owe("team-a")
		w.apply(v1.ReceiverKind, filtered("team-a", "app", "req.a == 2"))
		want(true, true, "after a change")
		pass(time.Minute)
		want(false, true, "after its turn")
		w.apply(v1.ReceiverKind, newReceiver("app", func(r *v1.Receiver) { r.Spec.Type = "unknown" }))
		want(false, false, "when its spec is refused")
		w.remove(v1.ReceiverKind, "app")
		want(false, false, "when it is deleted")
	})
}

// Fails when a webhook to a Receiver that is served later, since its namespace has used up its time of compiling, is answered 404: a sender
// may take that for the Receiver's end. Also fails when other unknown paths, or those of a deleted Receiver, are answered otherwise.
func TestAReceiverThatWaitsForItsTurnIsNotUnknownToItsSenders(t *testing.T) {
	table, err := receiver.NewTable(receiver.DefaultLimits(), nil)
	if err != nil {
		t.Fatal(err)
	}
	oidc := newReceiver("oidc", func(r *v1.Receiver) {
		r.Spec.Type, r.Spec.SecretRef = v1.GenericOIDCReceiver, nil
		r.Spec.OIDCProviders = []v1.OIDCProvider{{
			IssuerURL: "https://example.com", Audience: "notifier", Validations: []v1.OIDCValidation{{Expression: "claims.a == 1", Message: "no"}},
		}}
	})
	s := settings{
		objects: []runtime.Object{filtered("team-a", "app", "req.a == 1"), filtered("team-a", "gone", "req.a == 1"), oidc},
		secrets: []*corev1.Secret{newSecret("hook", "token", "t", "tokenPrevious", "p")},
		change:  func(o *Options) { o.Hooks = table }, prepare: func(w *world) { w.owe("team-a") },
	}
	play(t, s, func(w *world) {
		webhooks, err := receiver.NewWebhooks(receiver.WebhooksOptions{Table: table, Triggers: &receivertest.Recorder{}, Log: discard()})
		if err != nil {
			t.Fatal(err)
		}
		want := func(status int, token, name string) {
			t.Helper()
			r := receivertest.Push(receiver.Path(token, name, "team-a"), "wrong", "{}")
			if got := receivertest.Do(webhooks, r).StatusCode; got != status {
				t.Errorf("a webhook to %s is answered %d, want %d", name, got, status)
			}
		}
		want(http.StatusServiceUnavailable, "t", "app")
		want(http.StatusServiceUnavailable, "p", "app")
		want(http.StatusServiceUnavailable, "", "oidc")
		want(http.StatusServiceUnavailable, "t", "gone")
		want(http.StatusNotFound, "t", "other")
		w.remove(v1.ReceiverKind, "gone")
		want(http.StatusNotFound, "t", "gone")
		pass(time.Minute)
		want(http.StatusBadRequest, "t", "app") // its signature is checked
		want(http.StatusBadRequest, "p", "app")
		want(http.StatusBadRequest, "", "oidc")
		w.remove(v1.ReceiverKind, "app")
		want(http.StatusNotFound, "t", "app")
	})
}

// Fails when a Receiver of type event that is suspended, and then waits for its namespace's turn, is triggered by events as before.
func TestASuspendedReceiverOfEventsIsNotTriggeredBeforeItsTurn(t *testing.T) {
	s := settings{objects: []runtime.Object{newEventReceiver("app")}, secrets: secretsOf("team-a")}
	play(t, s, func(w *world) {
		if w.subscriptions.get("app") == nil {
			t.Fatal("not served")
		}
		w.owe("team-a")
		w.apply(v1.ReceiverKind, newReceiver("app", func(r *v1.Receiver) { r.Spec.ResourceFilter, r.Spec.Suspend = "req.a == 1", true }))
		if s := w.subscriptions.get("app"); s != nil && !s.Suspended {
			t.Error("events trigger it")
		}
	})
}

// T2: fails when a Receiver whose Secret cannot be read is live for the appliers after it was made anew, until the new one's turn.
func TestT2AFormerReceiverIsNotLiveUntilTheNewOnesTurn(t *testing.T) {
	s := settings{objects: []runtime.Object{filtered("team-a", "app", "req.a == 1")}, prepare: func(w *world) {
		w.core.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewServiceUnavailable("starting")
		})
	}}
	play(t, s, func(w *world) {
		if _, live := w.Receivers().Live("team-a", "app"); !live {
			t.Fatal("not live")
		}
		w.owe("team-a")
		again := filtered("team-a", "app", "req.a == 1")
		again.UID = "another"
		w.apply(v1.ReceiverKind, again)
		if r, live := w.Receivers().Live("team-a", "app"); live {
			t.Errorf("Receiver %s is live", r.UID)
		}
	})
}
