package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	v1 "notifier/api/v1"
	"notifier/internal/event"
)

// T1: fails when a foreign entry becomes a target, when its filter is compiled or counted, or when the other entries are not served.
// Fails when its owner does not get one Event, and when the condition stays after the entry was removed.
func TestAForeignEntryIsDeniedAndTheOthersAreServed(t *testing.T) {
	grab := newReceiver("app", func(r *v1.Receiver) {
		foreign := reference("", "GitRepository", "theirs")
		foreign.Namespace, foreign.Filter = "team-b", "not CEL ("
		r.Spec.Resources = append([]v1.ReceiverResource{foreign}, r.Spec.Resources...)
	})
	s := settings{secrets: []*corev1.Secret{newSecret("hook", "token", "t1")}}
	play(t, s, func(w *world) {
		w.apply("Receiver", grab)
		if got, want := w.ready("Receiver", "app", "True Succeeded"), "Receiver initialized for path: "+path("t1", "app"); got != want {
			t.Errorf("message: got %q, want %q", got, want)
		}
		hook := w.hooks.get("team-a/app")
		if hook == nil {
			t.Fatal("not served")
		}
		var targets []event.Target
		for _, trigger := range hook.Targets {
			targets = append(targets, trigger.Target)
		}
		if diff := cmp.Diff([]event.Target{{APIVersion: "source.toolkit.fluxcd.io/v1", Kind: "GitRepository", Name: "app"}}, targets); diff != "" {
			t.Errorf("targets (-want +got):\n%s", diff)
		}
		denied := `spec.resources[0] is in namespace "team-b": a Receiver reaches objects of its own namespace only; ` +
			`it is not served, the others are`
		if short, message := w.condition("Receiver", "app", v1.ServingCondition); short != "False CrossNamespaceDenied" || message != denied {
			t.Errorf("Serving: %s %s", short, message)
		}
		want := []string{"Receiver team-a/app uid-app Warning CrossNamespaceDenied: " + denied}
		if diff := cmp.Diff(want, w.events.take()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		w.apply("Receiver", newReceiver("app"))
		if short, _ := w.condition("Receiver", "app", v1.ServingCondition); short != "" {
			t.Errorf("Serving without a foreign entry: %s", short)
		}
	})
}

// Fails when a faulty entry becomes a target, when its filter is compiled, or when it removes the other entries, as none does with Flux.
// Fails when its owner does not get one Event, and when the condition stays after the entry was mended.
func TestAFaultyEntryIsLeftOutAndTheOthersAreServed(t *testing.T) {
	star := reference("", "GitRepository", "*")
	star.Filter = "not CEL ("
	const why = `spec.resources[0]: name "*" needs matchLabels or matchExpressions; ` +
		`an empty map of matchLabels selects all objects of the kind; `
	for name, tc := range map[string]struct {
		faulty []v1.ReceiverResource
		want   string
	}{
		"one": {[]v1.ReceiverResource{star}, why + "it is not served, the others are"},
		"three": {
			[]v1.ReceiverResource{star, with(star, map[string]string{"a": "not a value"}), reference("", "GitRepository", "a/b")},
			why + "it and 2 more that are faulty are not served, the others are",
		},
		"one that is long": {
			[]v1.ReceiverResource{reference("", strings.Repeat("x", 1500), "app")},
			`spec.resources[0]: kind "` + strings.Repeat("x", 484) + "…; it is not served, the others are",
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, settings{secrets: []*corev1.Secret{newSecret("hook", "token", "t1")}}, func(w *world) {
				w.apply("Receiver", newReceiver("app", func(r *v1.Receiver) {
					r.Spec.Resources = append(slices.Clone(tc.faulty), r.Spec.Resources...)
				}))
				w.ready("Receiver", "app", "True Succeeded")
				if hook := w.hooks.get("team-a/app"); hook == nil || len(hook.Targets) != 1 || hook.Targets[0].Target.Name != "app" {
					t.Errorf("served: %+v", hook)
				}
				short, message := w.condition("Receiver", "app", v1.ServingCondition)
				if short != "False ValidationFailed" || message != tc.want {
					t.Errorf("Serving: %s %s, want %s", short, message, tc.want)
				}
				want := []string{"Receiver team-a/app uid-app Warning ValidationFailed: " + tc.want}
				if diff := cmp.Diff(want, w.events.take()); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				w.apply("Receiver", newReceiver("app"))
				if short, _ := w.condition("Receiver", "app", v1.ServingCondition); short != "" {
					t.Errorf("Serving without a faulty entry: %s", short)
				}
			})
		})
	}
}

// E1: fails when a foreign source is subscribed to, or when the other sources are not served.
func TestAForeignEventSourceIsDeniedAndTheOthersTrigger(t *testing.T) {
	play(t, settings{}, func(w *world) {
		w.apply("Receiver", newEventReceiver("app", func(r *v1.Receiver) {
			for _, namespace := range []string{"team-b", "team-c"} {
				r.Spec.EventSources = append(r.Spec.EventSources, v1.CrossNamespaceObjectReference{
					Kind: "ImagePolicy", Name: "theirs", Namespace: namespace,
				})
			}
		}))
		w.ready("Receiver", "app", "True Succeeded")
		if s := w.subscriptions.get("app"); s == nil || len(s.Sources) != 1 || s.Sources[0].Name != "app" {
			t.Errorf("subscription: %+v", s)
		}
		short, message := w.condition("Receiver", "app", v1.ServingCondition)
		if short != "False CrossNamespaceDenied" || !strings.Contains(message, `spec.eventSources[1] is in namespace "team-b"`) ||
			!strings.Contains(message, "it and 1 more like it are not served") {
			t.Errorf("Serving: %s %s", short, message)
		}
	})
}

// Fails when the limit is off by one, when others than the first are served, when entries beyond it remove the others, or when the owner
// gets no condition.
func TestOfTooManyResourcesTheFirst512AreServed(t *testing.T) {
	s := settings{secrets: []*corev1.Secret{newSecret("hook", "token", "t1")}}
	play(t, s, func(w *world) {
		for _, count := range []int{512, 513} {
			w.apply("Receiver", newReceiver("app", func(r *v1.Receiver) {
				r.Spec.Resources = nil
				for i := range count {
					r.Spec.Resources = append(r.Spec.Resources, reference("", "GitRepository", fmt.Sprintf("app-%d", i)))
				}
				foreign := reference("", "GitRepository", "theirs") // not counted against the limit
				foreign.Namespace = "team-b"
				r.Spec.Resources = append([]v1.ReceiverResource{foreign}, r.Spec.Resources...)
			}))
			w.ready("Receiver", "app", "True Succeeded")
			hook := w.hooks.get("team-a/app")
			if hook == nil || len(hook.Targets) != 512 || hook.Targets[511].Target.Name != "app-511" {
				t.Errorf("of %d resources served: %+v", count, hook)
			}
			short, message := w.condition("Receiver", "app", v1.ServingCondition)
			if count > 512 != strings.Contains(message, "entries, and only the first 512 are served") ||
				short != "False CrossNamespaceDenied" {
				t.Errorf("of %d resources: %s %s", count, short, message)
			}
		}
	})
}
