package reconcile

import (
	"testing"

	v1 "notifier/api/v1"
)

// Our definitions are installed again over Flux's, which hid a field of an object that notifier had read: the object has its version and its
// generation all the time. Or the API server's store was restored from a backup, and the object edited. Fails when it is served as it was read
// first: as another service account, for example (T2).
func TestAnObjectWithAnotherSpecOfTheSameGenerationIsServedAsItIs(t *testing.T) {
	for name, show := range map[string]func(*v1.Receiver){
		"a service account": func(r *v1.Receiver) { r.Spec.ServiceAccountName = "deployer" },
		"a service account of an annotation": func(r *v1.Receiver) {
			r.Annotations = map[string]string{v1.ServiceAccountAnnotation: "deployer"}
		},
		"a target": func(r *v1.Receiver) {
			r.Spec.Resources[0].Name = "*"
			r.Spec.Resources[0].MatchLabels = map[string]string{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := oneOfEach()
			hidden := newReceiver("app")
			hidden.ResourceVersion = "7"
			s.objects = append(s.objects[1:], hidden)
			play(t, s, func(w *world) {
				before, _ := w.Receivers().Live("team-a", "app")
				shown := w.live(v1.ReceiverKind, "app").DeepCopyObject().(*v1.Receiver)
				version := shown.ResourceVersion
				show(shown)
				if err := w.cluster.Tracker.Update(resources[v1.ReceiverKind], shown, "team-a"); err != nil {
					t.Fatal(err)
				}
				w.settle()
				if got := w.live(v1.ReceiverKind, "app").GetResourceVersion(); got != version {
					t.Fatalf("its version is %q, and was %q: it proves less", got, version)
				}
				live, ok := w.Receivers().Live("team-a", "app")
				if !ok || live.ServiceAccount == before.ServiceAccount && live.Targets[0].Name == before.Targets[0].Name {
					t.Errorf("it writes %v as %q", live.Targets, live.ServiceAccount)
				}
			})
		})
	}
}
