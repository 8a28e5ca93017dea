package reconcile

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "notifier/api/v1"
	"notifier/internal/event/view"
	"notifier/internal/reconcile/kube"
	"notifier/internal/reconcile/secrets"
)

// late is how long a slow read of a Secret and a slow replay take.
const late = 20 * time.Second

// lateSecrets is a Source whose reads take long.
type lateSecrets struct{ secrets.Source }

func (l lateSecrets) Get(ctx context.Context, k kube.Key, version string) (*corev1.Secret, error) {
	<-time.After(late)
	return l.Source.Get(ctx, k, version)
}

// inUse is a Requests whose replays take long and whose tests record the destination that they find.
type inUse struct {
	askedFor
	w *world
}

func (u *inUse) Replay(ctx context.Context, namespace string, r view.ReplayRequest) (view.ReplayResult, error) {
	<-time.After(late)
	return u.askedFor.Replay(ctx, namespace, r)
}

func (u *inUse) Test(_ context.Context, namespace string, r view.TestRequest) (view.TestResult, error) {
	d := u.w.options.Destinations.Get(namespace, r.Provider)
	if d == nil {
		return view.TestResult{}, view.ErrNotFound
	}
	return view.TestResult{DeliveryID: "d1"}, u.ask(fmt.Sprintf("test %s, suspended: %t", d.UID, d.Suspended))
}

// playInUse runs a test with a suspended Provider that is changed or made anew.
func playInUse(t *testing.T, test func(w *world, asks *inUse)) {
	asks := &inUse{askedFor: askedFor{result: view.ReplayResult{Replayed: 1}}}
	play(t, settings{
		objects: []runtime.Object{newProvider("chat", func(p *v1.Provider) { p.Spec.Suspend = true })},
		secrets: []*corev1.Secret{newSecret("own", "token", "t")},
		change:  func(o *Options) { o.Requests, o.Clients.Secrets = by(asks), lateSecrets{o.Clients.Secrets} },
		prepare: func(w *world) { asks.w = w },
	}, func(w *world) { test(w, asks) })
}

// Fails when a Provider that is changed and asks for a test message in one edit is sent it as it was before: to the former address, or not at
// all since it was suspended.
func TestARequestWaitsUntilItsObjectIsCompiled(t *testing.T) {
	playInUse(t, func(w *world, asks *inUse) {
		w.apply(v1.ProviderKind, newProvider("chat", asking(map[string]string{v1.TestAnnotation: "1"}), func(p *v1.Provider) {
			p.Spec.SecretRef = &v1.LocalObjectReference{Name: "own"}
		}))
		pass(3 * late)
		if got := asks.take(); !slices.Equal(got, []string{"test uid-chat, suspended: false"}) {
			t.Errorf("asked %q", got)
		}
	})
}

// Fails when an object is made anew while a request of the former one is served, and that one's other request is served by the new object.
func TestARequestIsNotServedByAnotherObjectOfItsName(t *testing.T) {
	playInUse(t, func(w *world, asks *inUse) {
		w.apply(v1.ProviderKind, newProvider("chat", asking(map[string]string{v1.ReplayAnnotation: "dead", v1.TestAnnotation: "1"})))
		w.remove(v1.ProviderKind, "chat")
		w.apply(v1.ProviderKind, newProvider("chat", func(p *v1.Provider) {
			p.UID, p.Generation = "uid-other", 2
		}))
		pass(3 * late)
		if got := asks.take(); !slices.Equal(got, []string{"replay team-a chat  dead 0s []"}) {
			t.Errorf("asked %q", got)
		}
	})
}

// Fails when an Alert's request for a replay is served while the Provider that was changed with it is as it was: by the former address, or
// not at all since it was suspended.
func TestAnAlertsReplayWaitsUntilItsProviderIsCompiled(t *testing.T) {
	playInUse(t, func(w *world, asks *inUse) {
		w.apply(v1.ProviderKind, newProvider("chat", func(p *v1.Provider) { p.Spec.SecretRef = &v1.LocalObjectReference{Name: "own"} }))
		w.apply(v1.AlertKind, newAlert("all", func(a *v1.Alert) {
			a.Annotations = map[string]string{v1.ReplayAnnotation: "dead"}
		}))
		pass(late / 2)
		if d := w.options.Destinations.Get("team-a", "chat"); !d.Suspended {
			t.Fatal("the Provider is compiled already")
		}
		pass(late) // a replay takes as long
		if got := asks.take(); got != nil {
			t.Errorf("asked %q of the Provider as it was", got)
		}
		pass(2 * late)
		if got := asks.take(); !slices.Equal(got, []string{"replay team-a  all dead 0s []"}) {
			t.Errorf("asked %q", got)
		}
	})
}
