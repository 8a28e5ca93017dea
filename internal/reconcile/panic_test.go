package reconcile

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	v1 "notifier/api/v1"
)

// T4, E2: fails when the owner of an object whose compile ends in a panic is told nothing; when the stored webhooks of such a Receiver are kept
// for ever, as if it were compiled soon; when such a Provider is taken for gone; and when the object stays out of use once it can be compiled.
func TestAnObjectWhoseCompilePanicsIsRefused(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	s := settings{
		objects: []runtime.Object{
			newReceiver("app"), newAlert("alert"), newProvider("chat", func(p *v1.Provider) { p.Spec.SecretRef = ref("hook") }),
		},
		secrets: []*corev1.Secret{newSecret("hook", "token", "t")},
		prepare: func(w *world) {
			w.core.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
				if broken.Load() {
					panic("of a Secret")
				}
				return false, nil, nil
			})
		},
	}
	play(t, s, func(w *world) {
		want := func(kind, name string) {
			t.Helper()
			if message := w.ready(kind, name, "False InternalError"); strings.Contains(message, "of a Secret") {
				t.Errorf("%s %s shows the panic: %s", kind, name, message)
			}
		}
		<-w.Complete()
		w.settle()
		want("Receiver", "app")
		want("Provider", "chat")
		w.ready("Alert", "alert", "False ProviderNotReady")
		if w.Receivers().Uncompiled("team-a", "app", "uid-app") {
			t.Error("the Receiver waits for its turn to be compiled")
		}
		if d := w.options.Destinations.Get("team-a", "chat"); d == nil || d.Sender != nil {
			t.Errorf("the Provider's destination: %+v", d)
		}
		broken.Store(false)
		w.apply("Receiver", newReceiver("app", func(r *v1.Receiver) { r.Spec.Events = nil }))
		w.apply("Provider", newProvider("chat", func(p *v1.Provider) { p.Spec.SecretRef, p.Spec.Channel = ref("hook"), "other" }))
		pass(time.Minute)
		w.ready("Receiver", "app", "True Succeeded")
		w.ready("Provider", "chat", "True Succeeded")
		w.ready("Alert", "alert", "True Succeeded")
		table := w.options.Alerts
		w.options.Alerts = nil
		w.apply("Alert", newAlert("alert", func(a *v1.Alert) { a.Spec.Summary = "another" }))
		want("Alert", "alert")
		w.options.Alerts = table
		w.apply("Alert", newAlert("alert"))
		w.ready("Alert", "alert", "True Succeeded")
	})
}
