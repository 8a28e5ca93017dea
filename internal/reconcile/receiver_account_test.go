package reconcile

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "notifier/api/v1"
	"notifier/internal/event"
)

// annotated names a service account by annotation.
func annotated(account string) func(*v1.Receiver) {
	return func(r *v1.Receiver) { r.Annotations = map[string]string{v1.ServiceAccountAnnotation: account} }
}

// T2: the annotation is another form of the field. Fails when it is not read, when the default replaces an empty one, or when it
// overrides the field. Fails when the compiled spec stays after the annotation changed, since that does not change the generation.
func TestT2TheServiceAccountMayBeNamedByAnnotation(t *testing.T) {
	both := newReceiver("both", annotated("annotated"), func(r *v1.Receiver) { r.Spec.ServiceAccountName = "deployer" })
	overridden := newReceiver("overridden", annotated("not/a name"), func(r *v1.Receiver) { r.Spec.ServiceAccountName = "deployer" })
	s := settings{
		objects: []runtime.Object{newReceiver("app", annotated("annotated")), both, overridden},
		secrets: []*corev1.Secret{newSecret("hook", "token", "t")},
	}
	play(t, s, func(w *world) {
		writes := func(name, account string) {
			t.Helper()
			got, _ := w.Receivers().Live("team-a", name)
			hook := w.hooks.get("team-a/" + name)
			if got.ServiceAccount != account || hook == nil || hook.Targets[0].Key != event.TargetKey(got.Targets[0], account) {
				t.Errorf("%s: %q writes, want %q; its hook is %+v", name, got.ServiceAccount, account, hook)
			}
		}
		writes("app", "annotated")
		writes("both", "deployer")
		writes("overridden", "deployer")
		annotate := func(account string) {
			t.Helper()
			r := w.live("Receiver", "app").DeepCopyObject().(*v1.Receiver)
			annotated(account)(r)
			if err := w.cluster.Tracker.Update(resources["Receiver"], r, "team-a"); err != nil {
				t.Fatal(err)
			}
			w.settle()
		}
		annotate("other")
		writes("app", "other")
		for _, bad := range []string{
			"", " ", "Deployer", "team-b/deployer", "team-b:deployer", "system:serviceaccount:team-b:deployer", "a\nb", "*", strings.Repeat("a", 254),
		} {
			annotate(bad)
			message := w.ready("Receiver", "app", "False ValidationFailed")
			if !strings.Contains(message, v1.ServiceAccountAnnotation) {
				t.Errorf("%q: the message names no annotation: %s", bad, message)
			}
			if live, ok := w.Receivers().Live("team-a", "app"); ok || w.hooks.get("team-a/app") != nil {
				t.Errorf("%q: served as %q", bad, live.ServiceAccount)
			}
		}
		annotate("other")
		writes("app", "other")
		w.ready("Receiver", "app", "True Succeeded")
	})
}

// The applier reviews the rights of a Receiver that is new or changed. Fails when one is not reported, when one without a good spec is, and when
// one is reported for its Secret. Also fails when those of a namespace are in no order.
func TestANewOrChangedLiveReceiverIsReported(t *testing.T) {
	play(t, settings{secrets: []*corev1.Secret{newSecret("hook", "token", "t")}}, func(w *world) {
		var told []string
		w.Receivers().Follow(func(namespace, name string) { told = append(told, namespace+"/"+name) })
		faulty := func(r *v1.Receiver) { r.Spec.ServiceAccountName = "../../other" }
		var names []string
		for _, step := range []struct {
			what, name string
			change     func(*v1.Receiver)
			want       bool
		}{
			{"a new one", "b", func(*v1.Receiver) {}, true},
			{"another", "a", func(*v1.Receiver) {}, true},
			{"a faulty one", "c", faulty, false},
			{"one whose account changed", "b", annotated("deployer"), true},
		} {
			told = nil
			w.apply("Receiver", newReceiver(step.name, step.change))
			if want := []string{"team-a/" + step.name}; step.want && !slices.Equal(told, want) || !step.want && told != nil {
				t.Errorf("%s: told of %q", step.what, told)
			}
		}
		told = nil
		if w.applySecret(newSecret("hook", "token", "another")); told != nil {
			t.Errorf("another Secret: told of %q", told)
		}
		for _, r := range w.Receivers().InNamespace("team-a") {
			names = append(names, r.Name)
		}
		if !slices.Equal(names, []string{"a", "b"}) {
			t.Errorf("in the namespace: %q", names)
		}
	})
}
