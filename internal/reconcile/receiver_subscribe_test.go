package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "notifier/api/v1"
	"notifier/internal/event"
	"notifier/internal/receiver/subscribe"
	"notifier/internal/reconcile/bounds"
)

// newEventReceiver returns a Receiver of type event that subscribes to one ImagePolicy.
func newEventReceiver(name string, change ...func(*v1.Receiver)) *v1.Receiver {
	return newReceiver(name, append([]func(*v1.Receiver){func(r *v1.Receiver) {
		r.Spec.Type, r.Spec.SecretRef, r.Spec.Events = v1.EventReceiver, nil, []string{"Succeeded"}
		r.Spec.EventSources = []v1.CrossNamespaceObjectReference{{Kind: "ImagePolicy", Name: "app"}}
	}}, change...)...)
}

// A Receiver of type event needs no Secret and has no webhook. Fails when one of the subscription's fields is omitted, or when a webhook
// path is shown.
func TestAReceiverOfTypeEventSubscribes(t *testing.T) {
	labelled := func(r *v1.Receiver) {
		r.Spec.EventSources = append(r.Spec.EventSources, v1.CrossNamespaceObjectReference{
			Kind: "Kustomization", Name: "*", Namespace: "team-a", MatchLabels: map[string]string{"app": "web"},
		})
	}
	play(t, settings{objects: []runtime.Object{newEventReceiver("app", labelled)}}, func(w *world) {
		target := event.Target{APIVersion: "source.toolkit.fluxcd.io/v1", Kind: "GitRepository", Name: "app"}
		if diff := cmp.Diff(&subscribe.Subscription{
			Namespace: "team-a", Name: "app", UID: "uid-app", Generation: 1,
			Sources: []subscribe.EventSource{
				{Kind: "ImagePolicy", Name: "app"}, {Kind: "Kustomization", Name: "*", MatchLabels: map[string]string{"app": "web"}},
			},
			Reasons: []string{"succeeded"},
			Targets: []event.Trigger{{
				Namespace: "team-a", Receiver: "app", ReceiverUID: "uid-app", Generation: 1,
				Target: target, Key: event.TargetKey(target, "default"),
			}},
		}, w.subscriptions.get("app")); diff != "" {
			t.Errorf("subscription (-want +got):\n%s", diff)
		}
		if got, want := w.ready("Receiver", "app", "True Succeeded"), "Receiver initialized for events of 2 sources"; got != want {
			t.Errorf("message: got %q, want %q", got, want)
		}
		if w.hooks.get("team-a/app") != nil || w.live("Receiver", "app").(*v1.Receiver).Status.WebhookPath != "" {
			t.Error("it has a webhook")
		}
		if live, ok := w.Receivers().Live("team-a", "app"); !ok || live.ServiceAccount != "default" || len(live.Targets) != 1 {
			t.Errorf("for the applier it is %+v", live)
		}
		w.apply("Receiver", newEventReceiver("app", func(r *v1.Receiver) { r.Spec.Suspend = true }))
		if w.ready("Receiver", "app", "True Suspended"); !w.subscriptions.get("app").Suspended {
			t.Error("a suspended Receiver is triggered")
		}
		w.remove("Receiver", "app")
		if w.subscriptions.get("app") != nil {
			t.Error("a Receiver that is gone is triggered")
		}
	})
}

// Fails when a check is omitted, or when the earlier sources of a refused Receiver still trigger it.
func TestAFaultyEventReceiverIsNotTriggered(t *testing.T) {
	source := func(s v1.CrossNamespaceObjectReference) func(*v1.Receiver) {
		return func(r *v1.Receiver) { r.Spec.EventSources = append(r.Spec.EventSources, s) }
	}
	for name, tc := range map[string]struct {
		change       func(*v1.Receiver)
		reason, says string
	}{
		"no source of its own namespace": {
			change: func(r *v1.Receiver) { r.Spec.EventSources[0].Namespace = "team-b" },
			reason: v1.CrossNamespaceDeniedReason, says: `spec.eventSources[0] is in namespace "team-b"`,
		},
		"a resource of another namespace": {
			change: func(r *v1.Receiver) { r.Spec.Resources[0].Namespace = "team-b" },
			reason: v1.CrossNamespaceDeniedReason, says: `spec.resources[0] is in namespace "team-b"`,
		},
		"no sources": {
			change: func(r *v1.Receiver) { r.Spec.EventSources = nil },
			reason: v1.ValidationFailedReason, says: "spec.eventSources is required",
		},
		"65 sources": {
			change: func(r *v1.Receiver) {
				for i := range bounds.MaxReceiverSources {
					source(v1.CrossNamespaceObjectReference{Kind: "ImagePolicy", Name: fmt.Sprint(i)})(r)
				}
			},
			reason: v1.LimitExceededReason, says: "more than 64 entries",
		},
		"a source without a kind": {
			change: source(v1.CrossNamespaceObjectReference{Name: "app"}),
			reason: v1.ValidationFailedReason, says: "spec.eventSources[1]: kind or name is empty",
		},
		"labels that are none": {
			change: source(v1.CrossNamespaceObjectReference{Kind: "ImagePolicy", Name: "*", MatchLabels: map[string]string{"a b": "c"}}),
			reason: v1.ValidationFailedReason, says: "spec.eventSources[1]: matchLabels",
		},
		"very many labels": {
			change: func(r *v1.Receiver) {
				labels := map[string]string{}
				for i := range bounds.MaxLabels + 1 {
					labels[fmt.Sprint("l", i)] = ""
				}
				source(v1.CrossNamespaceObjectReference{Kind: "ImagePolicy", Name: "*", MatchLabels: labels})(r)
			},
			reason: v1.LimitExceededReason, says: "more than 32 entries",
		},
		"a Secret": {
			change: func(r *v1.Receiver) { r.Spec.SecretRef = &v1.LocalObjectReference{Name: "hook"} },
			reason: v1.ValidationFailedReason, says: "takes no spec.secretRef",
		},
		"a filter for all resources": {
			change: func(r *v1.Receiver) { r.Spec.ResourceFilter = "true" },
			reason: v1.UnsupportedFieldReason, says: "spec.resourceFilter",
		},
		"a filter of one resource": {
			change: func(r *v1.Receiver) { r.Spec.Resources[0].Filter = "true" },
			reason: v1.UnsupportedFieldReason, says: "spec.resources[0].filter",
		},
		"sources of another type": {
			change: func(r *v1.Receiver) {
				r.Spec.Type, r.Spec.SecretRef = v1.GitHubReceiver, &v1.LocalObjectReference{Name: "hook"}
			},
			reason: v1.ValidationFailedReason, says: "spec.eventSources is for type event",
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []runtime.Object{newEventReceiver("app")}
			play(t, settings{objects: objects, secrets: []*corev1.Secret{newSecret("hook", "token", "t")}}, func(w *world) {
				w.apply("Receiver", newEventReceiver("app", tc.change))
				if message := w.ready("Receiver", "app", "False "+tc.reason); !strings.Contains(message, tc.says) {
					t.Errorf("message %q does not say %q", message, tc.says)
				}
				if s := w.subscriptions.get("app"); s != nil && (!s.Suspended || len(s.Targets) > 0) {
					t.Errorf("still triggered: %+v", s)
				}
			})
		})
	}
}

// A Receiver can become one of type event and back. Fails when subscribe leaves the webhook, or when reconcile leaves the subscription.
func TestAReceiverChangesItsType(t *testing.T) {
	s := settings{objects: []runtime.Object{newReceiver("app")}, secrets: []*corev1.Secret{newSecret("hook", "token", "t1")}}
	play(t, s, func(w *world) {
		w.apply("Receiver", newEventReceiver("app"))
		if w.hooks.get("team-a/app") != nil || w.subscriptions.get("app") == nil {
			t.Error("the webhook is left, or events do not trigger")
		}
		w.feed.put("Loop/team-a/app", `{"uid":"uid-app","looping":true}`)
		w.apply("Receiver", newReceiver("app"))
		if w.hooks.get("team-a/app") == nil || w.subscriptions.get("app") != nil {
			t.Error("the webhook is not back, or events still trigger")
		}
		if got, _ := w.condition("Receiver", "app", v1.LoopDetectedCondition); got != "" {
			t.Errorf("LoopDetected is left: %s", got)
		}
	})
}

// Fails when a Receiver that no event triggers any more, for a fault of its spec, still shows the loop of its earlier spec: nothing would end it.
func TestARefusedReceiverShowsNoLoop(t *testing.T) {
	play(t, settings{objects: []runtime.Object{newEventReceiver("app")}}, func(w *world) {
		w.feed.put("Loop/team-a/app", `{"uid":"uid-app","looping":true,"kind":"ImagePolicy","object":"app","pause":60000000000}`)
		w.settle()
		if got, _ := w.condition("Receiver", "app", v1.LoopDetectedCondition); got != "True EventLoop" {
			t.Fatalf("LoopDetected: %q", got)
		}
		w.apply("Receiver", newEventReceiver("app", func(r *v1.Receiver) { r.Spec.EventSources = nil }))
		if got, _ := w.condition("Receiver", "app", v1.LoopDetectedCondition); got != "" || w.subscriptions.get("app") != nil {
			t.Errorf("LoopDetected: %q, subscription %+v", got, w.subscriptions.get("app"))
		}
	})
}

// The two reports on a Receiver are shown side by side, and each ends separately. Fails when show reads only one of them, or when they
// share a key.
func TestALoopIsShownBesideARefusedWrite(t *testing.T) {
	play(t, settings{objects: []runtime.Object{newEventReceiver("app")}}, func(w *world) {
		want := func(loop, denied string) {
			t.Helper()
			w.settle()
			for condition, want := range map[string]string{v1.LoopDetectedCondition: loop, v1.WriteDeniedCondition: denied} {
				if got, _ := w.condition("Receiver", "app", condition); got != want {
					t.Errorf("%s: got %q, want %q", condition, got, want)
				}
			}
		}
		w.feed.put("Receiver/team-a/app", `{"uid":"uid-app","denied":[{"resource":"gitrepositories","object":"app"}]}`)
		want("", "True Forbidden")
		w.feed.put("Loop/team-a/app", `{"uid":"uid-app","looping":true,"kind":"ImagePolicy","object":"app","pause":60000000000}`)
		want("True EventLoop", "True Forbidden")
		if _, message := w.condition("Receiver", "app", v1.LoopDetectedCondition); !strings.Contains(message, `ImagePolicy "app"`) {
			t.Errorf("message: %q", message)
		}
		w.ready("Receiver", "app", "True Succeeded")
		w.feed.put("Receiver/team-a/app", `{"uid":"uid-app"}`)
		want("True EventLoop", "False Succeeded")
		w.feed.put("Loop/team-a/app", `{"uid":"uid-app"}`)
		want("False Succeeded", "False Succeeded")
	})
}

// Fails when a Receiver beyond what its namespace may have is not told so, or is not served when there is room.
func TestAReceiverBeyondItsNamespacesEventsIsToldAndServedLater(t *testing.T) {
	s := settings{objects: []runtime.Object{newEventReceiver("app")}}
	s.prepare = func(w *world) { w.subscriptions.full = true }
	play(t, s, func(w *world) {
		if got := w.ready("Receiver", "app", "False LimitExceeded"); !strings.Contains(got, "too many sources") {
			t.Errorf("message: got %q", got)
		}
		w.subscriptions.mu.Lock()
		w.subscriptions.full = false
		w.subscriptions.mu.Unlock()
		pass(time.Minute)
		w.ready("Receiver", "app", "True Succeeded")
	})
}
