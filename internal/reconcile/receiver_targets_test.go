package reconcile

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "notifier/api/v1"
	"notifier/internal/event"
)

// Fails when an omitted API version is refused, when Flux's defaults are left to discovery, and when expressions are missing in the
// target.
func TestResourcesBecomeTargets(t *testing.T) {
	for name, tc := range map[string]struct {
		resource v1.ReceiverResource
		want     event.Target
	}{
		"a kind with one of Flux's defaults": {
			reference("", "GitRepository", "app"), event.Target{APIVersion: "source.toolkit.fluxcd.io/v1", Kind: "GitRepository", Name: "app"},
		},
		"a kind that Flux asks a version for": {reference("", "Kustomization", "app"), event.Target{Kind: "Kustomization", Name: "app"}},
		"any other kind":                      {reference("", "Widget", "app"), event.Target{Kind: "Widget", Name: "app"}},
		"a version that is given": {
			reference("example.com/v3", "Widget", "app"), event.Target{APIVersion: "example.com/v3", Kind: "Widget", Name: "app"},
		},
		"everything": {
			with(reference("", "Widget", "*"), map[string]string{}), event.Target{Kind: "Widget", Name: "*", MatchLabels: map[string]string{}},
		},
		"expressions alone": {
			with(reference("", "Widget", "*"), nil, demands(1, "In", "1", "2")...),
			event.Target{
				Kind: "Widget", Name: "*", MatchExpressions: []event.Requirement{{Key: "tier", Operator: "In", Values: []string{"1", "2"}}},
			},
		},
		"labels and expressions": {
			with(reference("", "Widget", "*"), map[string]string{"a": "b"}, demands(1, "DoesNotExist")...),
			event.Target{
				Kind: "Widget", Name: "*", MatchLabels: map[string]string{"a": "b"},
				MatchExpressions: []event.Requirement{{Key: "tier", Operator: "DoesNotExist"}},
			},
		},
		"labels beside a name, as with Flux": {
			with(reference("", "Widget", "app"), map[string]string{"a": "b"}), event.Target{Kind: "Widget", Name: "app"},
		},
	} {
		got, err := planTarget(tc.resource)
		if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func reference(apiVersion, kind, name string) v1.ReceiverResource {
	return v1.ReceiverResource{CrossNamespaceObjectReference: v1.CrossNamespaceObjectReference{
		APIVersion: apiVersion, Kind: kind, Name: name,
	}}
}

func with(r v1.ReceiverResource, labels map[string]string, all ...metav1.LabelSelectorRequirement) v1.ReceiverResource {
	r.MatchLabels, r.MatchExpressions = labels, all
	return r
}

// oneRepository is a watchers' cache with one GitRepository.
type oneRepository string

func (oneRepository) Pending(string) bool { return false }

func (o oneRepository) Select(string, event.Target) (names []string, watched bool) {
	return []string{string(o)}, true
}

func (o oneRepository) Selects(_ string, _ event.Target, name string) (selected, watched bool) {
	return name == string(o), true
}

func (o oneRepository) Objects(string, event.Target) (objects iter.Seq2[string, map[string]any], watched bool) {
	return func(yield func(string, map[string]any) bool) {
		yield(string(o), map[string]any{"metadata": map[string]any{"name": string(o)}})
	}, true
}

// A filter is compiled with the spec, and its triggers are as complete as those of a Receiver without filters. Fails when the Receiver's
// targets are triggered without their filter, when the hook of the previous token has none, or when a filter that was removed from the
// spec stays.
func TestTheFiltersOfAReceiverAreServed(t *testing.T) {
	filtered := newReceiver("app", func(r *v1.Receiver) {
		r.Spec.ServiceAccountName = "deployer"
		r.Spec.ResourceFilter = `req.go == true`
		r.Spec.Resources = []v1.ReceiverResource{
			with(reference("", "GitRepository", "*"), map[string]string{}), reference("", "Widget", "plain"), reference("", "Widget", "never"),
		}
		r.Spec.Resources[0].Filter = `res.metadata.name == "found"`
		r.Spec.Resources[2].Filter = `false`
	})
	s := settings{
		objects: []runtime.Object{filtered}, secrets: []*corev1.Secret{newSecret("hook", "token", "t1", "tokenPrevious", "t0")},
		change: func(o *Options) { o.Objects = oneRepository("found") },
	}
	play(t, s, func(w *world) {
		w.ready("Receiver", "app", "True Succeeded")
		hooks := w.hooks.all("team-a/app")
		if len(hooks) != 2 {
			t.Fatalf("%d hooks", len(hooks))
		}
		for _, hook := range hooks {
			if hook.Filter == nil || !hook.Filter.ReadsBody() || len(hook.Targets) != 3 {
				t.Fatalf("hook: %+v", hook)
			}
			got, err := hook.Filter.Select(context.Background(), nil, []byte(`{"go":true}`))
			trigger := func(target event.Target) event.Trigger {
				return event.Trigger{
					Namespace: "team-a", Receiver: "app", ReceiverUID: "uid-app", Generation: 1,
					Target: target, Key: event.TargetKey(target, "deployer"),
				}
			}
			want := []event.Trigger{
				trigger(event.Target{APIVersion: "source.toolkit.fluxcd.io/v1", Kind: "GitRepository", Name: "found"}),
				trigger(event.Target{Kind: "Widget", Name: "plain"}),
			}
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("selected: %v (-want +got):\n%s", err, diff)
			}
			if got, err := hook.Filter.Select(context.Background(), nil, nil); len(got) != 0 || fmt.Sprint(err) == "<nil>" {
				t.Errorf("without a body: %v, %v", got, err)
			}
		}
		w.apply("Receiver", newReceiver("app"))
		if hook := w.hooks.get("team-a/app"); hook == nil || hook.Filter != nil {
			t.Errorf("without filters: %+v", hook)
		}
	})
}
