package reconcile

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	v1 "notifier/api/v1"
)

// Fails when the table is complete before the last Receiver is in it: unknown paths would be answered 404 too early.
func TestTheTableIsCompleteOnlyWithEveryReceiverInIt(t *testing.T) {
	const n = 500
	s := settings{}
	for i := range n {
		namespace := fmt.Sprintf("team-%d", i%10) // client-go's fake sends a watch all Secrets of the namespace, at most 100
		s.objects = append(s.objects, newReceiver(fmt.Sprintf("r%d", i), func(r *v1.Receiver) {
			r.Namespace, r.Spec.SecretRef.Name = namespace, fmt.Sprintf("s%d", i)
		}))
		secret := newSecret(fmt.Sprintf("s%d", i), "token", fmt.Sprintf("t%d", i))
		secret.Namespace = namespace
		s.secrets = append(s.secrets, secret)
	}
	var away atomic.Bool
	away.Store(true)
	s.change = func(o *Options) { o.SecretQPS = 100 }
	s.prepare = func(w *world) {
		w.core.PrependReactor("get", "secrets", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if away.Load() && a.(clienttesting.GetAction).GetName() == "s7" {
				return true, nil, apierrors.NewServiceUnavailable("starting")
			}
			return false, nil, nil
		})
	}
	play(t, s, func(w *world) {
		pass(4 * time.Second)
		if w.hooks.complete || len(w.Waiting()) != 1 || w.Waiting()[0] != "Receiver" {
			t.Errorf("complete %t, waiting for %v, while a Secret is not read", w.hooks.complete, w.Waiting())
		}
		away.Store(false)
		<-w.Complete()
		if got := len(w.hooks.hooks); got != n || w.hooks.late != 0 {
			t.Errorf("served when complete: got %d, want %d; %d came late", got, n, w.hooks.late)
		}
		if waiting := w.Waiting(); waiting != nil {
			t.Errorf("waiting for %v", waiting)
		}
	})
}

// T6: fails when the start waits for ever for one tenant's Secret that the API server cannot decrypt.
func TestOneBrokenSecretDoesNotKeepTheProcessFromStarting(t *testing.T) {
	broken := newReceiver("broken", func(r *v1.Receiver) { r.Spec.SecretRef.Name = "broken" })
	s := settings{objects: []runtime.Object{newReceiver("app"), broken}, secrets: []*corev1.Secret{newSecret("hook", "token", "t")}}
	var fails atomic.Bool
	fails.Store(true)
	s.prepare = func(w *world) {
		w.core.PrependReactor("get", "secrets", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if fails.Load() && a.(clienttesting.GetAction).GetName() == "broken" {
				return true, nil, apierrors.NewInternalError(fmt.Errorf("cannot decrypt"))
			}
			return false, nil, nil
		})
	}
	play(t, s, func(w *world) {
		<-w.Complete()
		w.settle()
		w.ready("Receiver", "app", "True Succeeded")
		if message := w.ready("Receiver", "broken", "False ProgressingWithRetry"); strings.Contains(message, "decrypt") {
			t.Errorf("message: %s", message)
		}
		fails.Store(false)
		w.applySecret(newSecret("broken", "token", "t"))
		pass(2 * time.Minute)
		w.ready("Receiver", "broken", "True Succeeded")
	})
}

// Fails when a failed read removes the served hooks: an outage of the API server is unrelated to the Secret.
func TestServedHooksStayWhileTheAPIServerIsAway(t *testing.T) {
	s := settings{objects: []runtime.Object{newReceiver("app")}, secrets: []*corev1.Secret{newSecret("hook", "token", "t")}}
	play(t, s, func(w *world) {
		w.core.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, fmt.Errorf("connection refused")
		})
		w.apply("Receiver", newReceiver("app", func(r *v1.Receiver) { r.Spec.SecretRef.Name = "another" }))
		pass(time.Minute)
		if w.hooks.get("team-a/app") == nil {
			t.Error("no longer served")
		}
	})
}

// T1: fails when an object that was made anew under the name of another, perhaps by a new owner of the namespace, sends to the address or
// takes the webhooks of that one, because its own Secret cannot be read.
func TestT1WhatAFormerObjectServedEndsThoughTheNewOnesSecretCannotBeRead(t *testing.T) {
	s := settings{
		objects: []runtime.Object{newReceiver("app"), newProvider("chat", func(p *v1.Provider) { p.Spec.SecretRef = ref("hook") })},
		secrets: []*corev1.Secret{newSecret("hook", "token", "t")},
	}
	play(t, s, func(w *world) {
		w.core.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewInternalError(fmt.Errorf("cannot decrypt"))
		})
		if d := w.options.Destinations.Get("team-a", "chat"); w.hooks.get("team-a/app") == nil || d == nil || d.Sender == nil {
			t.Fatal("not served")
		}
		w.apply("Receiver", newReceiver("app", func(r *v1.Receiver) { r.UID, r.Spec.SecretRef.Name = "another", "broken" }))
		w.apply("Provider", newProvider("chat", func(p *v1.Provider) { p.UID, p.Spec.SecretRef = "another", ref("broken") }))
		if w.hooks.get("team-a/app") != nil {
			t.Error("the webhooks of the former Receiver are taken")
		}
		if d := w.options.Destinations.Get("team-a", "chat"); d != nil && d.Sender != nil {
			t.Errorf("the former Provider is sent to, of UID %s", d.UID)
		}
		w.ready("Receiver", "app", "False ProgressingWithRetry")
		w.ready("Provider", "chat", "False ProgressingWithRetry")
	})
}

// Fails when a start reads a Secret once for each kind, or each object, that names it.
func TestAStartReadsASecretOnceForAllItsUsers(t *testing.T) {
	s := settings{
		objects: []runtime.Object{newReceiver("app"), newReceiver("web"), newProvider("chat", func(p *v1.Provider) { p.Spec.SecretRef = ref("hook") })},
		secrets: []*corev1.Secret{newSecret("hook", "token", "t1")},
	}
	play(t, s, func(w *world) {
		reads := 0
		for _, a := range w.core.Actions() {
			if a.Matches("get", "secrets") {
				reads++
			}
		}
		if reads != 1 {
			t.Errorf("%d reads of one Secret", reads)
		}
		w.ready("Provider", "chat", "True Succeeded")
		w.remove("Provider", "chat")
		w.remove("Receiver", "app")
		w.remove("Receiver", "web")
		if n := w.heldSecrets(); n != 0 {
			t.Errorf("%v Secrets are held for nobody", n)
		}
	})
}
