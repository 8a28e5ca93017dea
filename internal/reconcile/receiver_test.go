package reconcile

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	v1 "notifier/api/v1"
	"notifier/internal/event"
	"notifier/internal/receiver"
	"notifier/internal/reconcile/kube"
)

func path(token, name string) string { return receiver.Path(token, name, "team-a") }

func TestAReceiverIsServedAndItsOwnerNotified(t *testing.T) {
	s := settings{secrets: []*corev1.Secret{newSecret("hook", "token", "t1")}}
	play(t, s, func(w *world) {
		w.apply("Receiver", newReceiver("app"))
		hook := w.hooks.get("team-a/app")
		if hook == nil {
			t.Fatal("not served")
		}
		target := event.Target{APIVersion: "source.toolkit.fluxcd.io/v1", Kind: "GitRepository", Name: "app"}
		if diff := cmp.Diff([]event.Trigger{{
			Namespace: "team-a", Receiver: "app", ReceiverUID: "uid-app", Generation: 1,
			Target: target, Key: event.TargetKey(target, "default"),
		}}, hook.Targets); diff != "" {
			t.Errorf("targets (-want +got):\n%s", diff)
		}
		if hook.Path != path("t1", "app") || !hook.Events.Has("push") || hook.Suspended || hook.Verifier.Type() != "github" {
			t.Errorf("hook: %+v", hook)
		}
		if got, want := w.ready("Receiver", "app", "True Succeeded"), "Receiver initialized for path: "+hook.Path; got != want {
			t.Errorf("message: got %q, want %q", got, want)
		}
		status := w.live("Receiver", "app").(*v1.Receiver).Status
		if status.WebhookPath != hook.Path || status.ObservedGeneration != 1 {
			t.Errorf("status: %+v", status)
		}
		// E7: the path is in no Event. Fails when the condition's message becomes the Event's.
		if diff := cmp.Diff([]string{"Receiver team-a/app uid-app Normal Succeeded: Receiver initialized"}, w.events.take()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		pass(time.Hour)
		if events := w.events.take(); events != nil {
			t.Errorf("events without a change: %v", events)
		}
	})
}

// demands returns n expressions over the label "tier".
func demands(n int, operator metav1.LabelSelectorOperator, values ...string) []metav1.LabelSelectorRequirement {
	all := make([]metav1.LabelSelectorRequirement, n)
	for i := range all {
		all[i] = metav1.LabelSelectorRequirement{Key: "tier", Operator: operator, Values: values}
	}
	return all
}

// selecting changes the first resource to select all objects that satisfy the expressions.
func selecting(all []metav1.LabelSelectorRequirement) func(*v1.Receiver) {
	return func(r *v1.Receiver) {
		r.Spec.Resources[0].Name, r.Spec.Resources[0].MatchExpressions = "*", all
	}
}

func TestAFaultyReceiverIsNotServed(t *testing.T) {
	resource := func(ref v1.CrossNamespaceObjectReference) func(*v1.Receiver) {
		return func(r *v1.Receiver) {
			r.Spec.Resources = append(r.Spec.Resources, v1.ReceiverResource{CrossNamespaceObjectReference: ref})
		}
	}
	only := func(ref v1.CrossNamespaceObjectReference) func(*v1.Receiver) {
		return func(r *v1.Receiver) {
			r.Spec.Resources = []v1.ReceiverResource{{CrossNamespaceObjectReference: ref}}
		}
	}
	for name, tc := range map[string]struct {
		change  func(*v1.Receiver)
		reason  string
		says    string
		event   string
		retried bool
		// pathless says that the spec names no token, or only other namespaces.
		pathless bool
	}{
		"no resource of its own namespace": {
			change: func(r *v1.Receiver) { r.Spec.Resources[0].Namespace = "team-b" },
			reason: v1.CrossNamespaceDeniedReason, says: `spec.resources[0] is in namespace "team-b"`, pathless: true,
		},
		"a type that is not built": {
			change: func(r *v1.Receiver) { r.Spec.Type = "carrier-pigeon" },
			reason: v1.UnsupportedTypeReason, says: "gitea, github, gitlab", pathless: true,
		},
		"a filter for all resources that does not compile": {
			change: func(r *v1.Receiver) { r.Spec.ResourceFilter = "req.x ==" },
			reason: v1.InvalidCELExpressionReason, says: "spec.resourceFilter: ", event: "InvalidCELExpression",
		},
		"a filter of one resource that gives no bool": {
			change: func(r *v1.Receiver) { r.Spec.Resources[0].Filter = "req.x" },
			reason: v1.InvalidCELExpressionReason, says: "spec.resources[0].filter: expression gives dyn and not bool",
			event: "InvalidCELExpression",
		},
		"several filters that do not compile, each is named": {
			change: func(r *v1.Receiver) {
				r.Spec.Resources[0].Filter = "req.x =="
				resource(v1.CrossNamespaceObjectReference{Kind: "GitRepository", Name: "other"})(r)
				r.Spec.Resources[1].Filter = "reqs.x == 1"
			},
			reason: v1.InvalidCELExpressionReason, says: "; spec.resources[1].filter: ERROR: <input>:1:1: undeclared reference to 'reqs'",
			event: "InvalidCELExpression",
		},
		"a filter that reads claims of a type without": {
			change: func(r *v1.Receiver) { r.Spec.ResourceFilter = "claims.sub == 'x'" },
			reason: v1.InvalidCELExpressionReason, says: "undeclared reference to 'claims'", event: "InvalidCELExpression",
		},
		"filters of more than 8 KiB": {
			change: func(r *v1.Receiver) {
				for i := range 5 {
					resource(v1.CrossNamespaceObjectReference{Kind: "GitRepository", Name: fmt.Sprintf("r%d", i)})(r)
					r.Spec.Resources[i].Filter = "'" + strings.Repeat("x", 2000) + "' != ''"
				}
			},
			reason: v1.LimitExceededReason, says: "have more than 8192 characters together",
		},
		"short filters of more than 64 resources": {
			change: func(r *v1.Receiver) {
				for i := range 65 {
					resource(v1.CrossNamespaceObjectReference{Kind: "GitRepository", Name: fmt.Sprintf("r%d", i)})(r)
				}
				for i := range 65 {
					r.Spec.Resources[len(r.Spec.Resources)-1-i].Filter = "req.x == 1"
				}
			},
			reason: v1.LimitExceededReason, says: "more than 64 of spec.resources have a filter",
		},
		"no secretRef": {
			change: func(r *v1.Receiver) { r.Spec.SecretRef = nil }, reason: v1.ValidationFailedReason, says: "spec.secretRef is required",
			pathless: true,
		},
		"a secretRef that names no Secret": {
			change: func(r *v1.Receiver) { r.Spec.SecretRef.Name = "../x" }, reason: v1.ValidationFailedReason, says: "spec.secretRef.name",
			pathless: true,
		},
		"a service account that is none": {
			change: func(r *v1.Receiver) { r.Spec.ServiceAccountName = "team-b:admin" },
			reason: v1.ValidationFailedReason, says: "spec.serviceAccountName",
		},
		"a Secret that does not exist": {
			change: func(r *v1.Receiver) { r.Spec.SecretRef.Name = "absent" },
			reason: v1.TokenNotFoundReason, says: `Secret "absent", named by spec.secretRef, does not exist`, event: "Failed", retried: true,
		},
		"a Secret without token": {
			change: func(r *v1.Receiver) { r.Spec.SecretRef.Name = "tokenless" },
			reason: v1.TokenNotFoundReason, says: `has no key "token", or it is empty: write it there, or correct the name`, event: "Failed", retried: true,
		},
		"an empty token": {
			change: func(r *v1.Receiver) { r.Spec.SecretRef.Name = "empty" },
			reason: v1.TokenNotFoundReason, says: `has no key "token", or it is empty: write it there, or correct the name`, event: "Failed", retried: true,
		},
		"all names without labels": {
			change: only(v1.CrossNamespaceObjectReference{Kind: "GitRepository", Name: "*"}),
			reason: v1.ValidationFailedReason, says: `name "*" needs matchLabels or matchExpressions`,
		},
		"no entry but a foreign and a faulty one": {
			change: func(r *v1.Receiver) {
				only(v1.CrossNamespaceObjectReference{Kind: "GitRepository", Name: "*"})(r)
				resource(v1.CrossNamespaceObjectReference{Kind: "GitRepository", Name: "theirs", Namespace: "team-b"})(r)
			},
			reason: v1.ValidationFailedReason, says: ", and no other entry is left to serve",
		},
		"labels that are none": {
			change: only(v1.CrossNamespaceObjectReference{Kind: "GitRepository", Name: "*", MatchLabels: map[string]string{"a b": "c"}}),
			reason: v1.ValidationFailedReason, says: "matchLabels",
		},
		"expressions beside a name": {
			change: func(r *v1.Receiver) { r.Spec.Resources[0].MatchExpressions = demands(1, "In", "x") },
			reason: v1.ValidationFailedReason, says: `spec.resources[0]: matchExpressions narrow down what the name "*" selects`,
		},
		"an operator that is none": {
			change: selecting(demands(1, "Gt", "1")), reason: v1.ValidationFailedReason, says: "spec.resources[0]: matchExpressions[0].operator",
		},
		"a value that is none": {
			change: selecting(demands(1, "In", "a b")), reason: v1.ValidationFailedReason, says: "matchExpressions[0].values[0]",
		},
		"an expression without values": {
			change: selecting(demands(1, "NotIn")), reason: v1.ValidationFailedReason, says: "matchExpressions[0].values",
		},
		"17 expressions": {
			change: selecting(demands(17, "Exists")), reason: v1.ValidationFailedReason, says: "matchExpressions has more than 16 entries",
		},
		"expressions of more than 8 KiB": {
			change: selecting(demands(1, "In", make([]string, 9000)...)), reason: v1.LimitExceededReason,
			says: "the matchLabels and matchExpressions of spec.resources have more than 8192 characters together",
		},
		"an API version that is none": {
			change: only(v1.CrossNamespaceObjectReference{APIVersion: "a/b/c", Kind: "Kustomization", Name: "app"}),
			reason: v1.ValidationFailedReason, says: "apiVersion",
		},
		"a kind that is in no namespace": {
			change: only(v1.CrossNamespaceObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "kube-system"}),
			reason: v1.ValidationFailedReason, says: "kind Namespace is not in a namespace",
		},
		"a name that leaves its path": {
			change: only(v1.CrossNamespaceObjectReference{Kind: "GitRepository", Name: "../../secrets/x"}),
			reason: v1.ValidationFailedReason, says: "is not the name of an object",
		},
		"a spec that does not decode": {
			change: func(r *v1.Receiver) {
				r.Annotations = map[string]string{kube.Undecodable: "true"}
			},
			reason: v1.ValidationFailedReason, says: "the object cannot be read",
		},
	} {
		t.Run(name, func(t *testing.T) {
			secrets := []*corev1.Secret{newSecret("hook", "token", "t1"), newSecret("tokenless", "other", "x"), newSecret("empty", "token", "")}
			// It was served before the edit: a bad edit ends that.
			play(t, settings{objects: []runtime.Object{newReceiver("app")}, secrets: secrets}, func(w *world) {
				w.ready("Receiver", "app", "True Succeeded")
				w.events.take()
				w.apply("Receiver", newReceiver("app", tc.change))
				if w.hooks.get("team-a/app") != nil {
					t.Error("still served")
				}
				if message := w.ready("Receiver", "app", "False "+tc.reason); !strings.Contains(message, tc.says) {
					t.Errorf("message: got %q, want %q in it", message, tc.says)
				}
				kept, awaited := path("t1", "app"), []string{path("t1", "app")}
				if tc.retried || tc.pathless {
					kept, awaited = "", nil
				}
				if status := w.live("Receiver", "app").(*v1.Receiver).Status; status.WebhookPath != kept || status.ObservedGeneration != 2 {
					t.Errorf("status: %+v", status)
				}
				if got := w.hooks.awaited["team-a/app"]; !slices.Equal(got, awaited) {
					t.Errorf("awaited at %q, want %q", got, awaited)
				}
				stalled, _ := w.condition("Receiver", "app", v1.StalledCondition)
				reconciling, _ := w.condition("Receiver", "app", v1.ReconcilingCondition)
				if (stalled != "") == tc.retried || (reconciling != "") != tc.retried {
					t.Errorf("stalled %q, reconciling %q", stalled, reconciling)
				}
				if tc.event == "" {
					tc.event = "ValidationFailed"
				}
				if events := w.events.take(); len(events) != 1 || !strings.Contains(events[0], "Warning "+tc.event+": ") {
					t.Errorf("events: %q", events)
				}
				_, live := w.Receivers().Live("team-a", "app")
				if live != tc.retried {
					t.Errorf("live: got %t, want %t", live, tc.retried)
				}
				w.apply("Receiver", newReceiver("app"))
				w.ready("Receiver", "app", "True Succeeded")
				if stalled, _ := w.condition("Receiver", "app", v1.StalledCondition); stalled != "" || w.hooks.get("team-a/app") == nil {
					t.Error("not served again after it was mended")
				}
			})
		})
	}
}

// T2: fails when the name of the spec is not used, or when the default replaces a given name.
func TestTheLiveReceiverNamesItsServiceAccount(t *testing.T) {
	named := newReceiver("named", func(r *v1.Receiver) { r.Spec.ServiceAccountName = "deployer" })
	s := settings{objects: []runtime.Object{newReceiver("app"), named}, secrets: []*corev1.Secret{newSecret("hook", "token", "t")}}
	play(t, s, func(w *world) {
		for name, account := range map[string]string{"app": "default", "named": "deployer"} {
			got, ok := w.Receivers().Live("team-a", name)
			if !ok || got.ServiceAccount != account || got.UID != "uid-"+name || len(got.Targets) != 1 {
				t.Errorf("%s: got %+v, %t", name, got, ok)
			}
			if key := w.hooks.get("team-a/" + name).Targets[0].Key; key != event.TargetKey(got.Targets[0], account) {
				t.Errorf("%s: its triggers have the key of another account or target", name)
			}
		}
		if all := w.Receivers().InNamespace("team-a"); len(all) != 2 || all[0].Name != "app" {
			t.Errorf("in namespace: %+v", all)
		}
		w.remove("Receiver", "app")
		if _, ok := w.Receivers().Live("team-a", "app"); ok || w.hooks.get("team-a/app") != nil {
			t.Error("a deleted Receiver is live")
		}
		if all := w.Receivers().InNamespace("team-b"); len(all) != 0 {
			t.Errorf("in another namespace: %+v", all)
		}
	})
}

// Rotation: within seconds the old path ends and the new one is served. While the Secret is empty no path is served, and the condition
// says so. Fails when the Secret is not watched.
func TestASecretIsRotated(t *testing.T) {
	s := settings{objects: []runtime.Object{newReceiver("app")}, secrets: []*corev1.Secret{newSecret("hook", "token", "old")}}
	play(t, s, func(w *world) {
		pass(10 * time.Second)
		w.applySecret(newSecret("hook", "token", "new"))
		if got := w.hooks.get("team-a/app"); got == nil || got.Path != path("new", "app") {
			t.Errorf("after the rotation: %+v", got)
		}
		if got := w.live("Receiver", "app").(*v1.Receiver).Status.WebhookPath; got != path("new", "app") {
			t.Errorf("status shows %s", got)
		}
		w.applySecret(newSecret("hook", "token", ""))
		w.ready("Receiver", "app", "False TokenNotFound")
		w.removeSecret("hook")
		w.ready("Receiver", "app", "False TokenNotFound")
		if w.hooks.get("team-a/app") != nil || w.live("Receiver", "app").(*v1.Receiver).Status.WebhookPath != "" {
			t.Error("served or shown without a token")
		}
		w.applySecret(newSecret("hook", "token", "back"))
		w.ready("Receiver", "app", "True Succeeded")
		if got := w.hooks.get("team-a/app"); got == nil || got.Path != path("back", "app") {
			t.Errorf("after the Secret came back: %+v", got)
		}
	})
}

func TestAReconcileOnRequestIsAcknowledged(t *testing.T) {
	play(t, oneReceiver(), func(w *world) {
		reads := len(gets(w))
		r := w.live("Receiver", "app").DeepCopyObject().(*v1.Receiver)
		r.Annotations = map[string]string{v1.ReconcileRequestAnnotation: "now"}
		if err := w.cluster.Tracker.Update(resources["Receiver"], r, "team-a"); err != nil {
			t.Fatal(err)
		}
		w.settle()
		if got := w.live("Receiver", "app").(*v1.Receiver).Status.LastHandledReconcileAt; got != "now" {
			t.Errorf("lastHandledReconcileAt: got %q", got)
		}
		if got := len(gets(w)); got != reads+1 {
			t.Errorf("reads of the Secret: got %d more, want 1", got-reads)
		}
	})
}

// gets returns the names of the Secrets that were read.
func gets(w *world) []string {
	var names []string
	for _, a := range w.core.Actions() {
		if get, ok := a.(clienttesting.GetAction); ok && a.GetVerb() == "get" && a.GetResource().Resource == "secrets" {
			names = append(names, get.GetName())
		}
	}
	return names
}

// Fails when spec.interval is ignored, or has no bounds. T6: a delay that overflows is over at once, so that the Receiver is reconciled all
// the time, and the test does not end.
func TestTheSecretIsReadAgainAtTheInterval(t *testing.T) {
	for name, tc := range map[string]struct {
		interval time.Duration
		min, max int // reads within an hour after the start
	}{
		"ten minutes":                        {10 * time.Minute, 5, 6},
		"nothing is less than half a minute": {time.Millisecond, 105, 120},
		"the longest that a duration can be": {math.MaxInt64, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver("app", func(r *v1.Receiver) { r.Spec.Interval = &metav1.Duration{Duration: tc.interval} })
			play(t, settings{objects: []runtime.Object{r}, secrets: []*corev1.Secret{newSecret("hook", "token", "t")}}, func(w *world) {
				before := len(gets(w))
				pass(time.Hour)
				if got := len(gets(w)) - before; got < tc.min || got > tc.max {
					t.Errorf("reads: got %d, want %d to %d", got, tc.min, tc.max)
				}
			})
		})
	}
}

func TestSecretsOfOtherNamespacesAreNeverAskedFor(t *testing.T) {
	grab := newReceiver("grab", func(r *v1.Receiver) { r.Spec.Resources[0].Namespace = "team-b" })
	s := settings{objects: []runtime.Object{newReceiver("app"), grab}, secrets: []*corev1.Secret{newSecret("hook", "token", "t")}}
	play(t, s, func(w *world) {
		w.ready("Receiver", "grab", "False CrossNamespaceDenied")
		for _, a := range w.core.Actions() {
			if a.GetVerb() != "get" && a.GetVerb() != "watch" || a.GetNamespace() != "team-a" {
				t.Errorf("%s %s in %q", a.GetVerb(), a.GetResource().Resource, a.GetNamespace())
			}
		}
	})
}
