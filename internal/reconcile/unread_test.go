package reconcile

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	v1 "notifier/api/v1"
	"notifier/api/v1beta3"
)

// Fails when a requested read of a Secret that the API server refuses is forgotten after its first failure: the object would be shown as
// ready with the values of before, and the request as done.
func TestARequestedReadOfASecretIsRepeatedUntilItSucceeds(t *testing.T) {
	asked := map[string]string{v1.ReconcileRequestAnnotation: "now"}
	s := settings{
		objects: []runtime.Object{newReceiver("app"), newProvider("chat", func(p *v1beta3.Provider) { p.Spec.SecretRef = ref("hook") })},
		secrets: []*corev1.Secret{newSecret("hook", "token", "t")},
	}
	var refused atomic.Bool
	s.prepare = func(w *world) {
		w.core.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			if refused.Load() {
				return true, nil, apierrors.NewForbidden(corev1.Resource("secrets"), "hook", errors.New("no"))
			}
			return false, nil, nil
		})
	}
	play(t, s, func(w *world) {
		refused.Store(true)
		w.apply("Receiver", newReceiver("app", func(r *v1.Receiver) { r.Annotations = asked }))
		w.apply("Provider", newProvider("chat", func(p *v1beta3.Provider) { p.Annotations, p.Spec.SecretRef = asked, ref("hook") }))
		pass(time.Minute)
		w.ready("Receiver", "app", "False ProgressingWithRetry")
		w.ready("Provider", "chat", "False ProgressingWithRetry")
		if w.hooks.get("team-a/app") == nil || w.options.Destinations.Get("team-a", "chat").Sender == nil {
			t.Error("no longer served")
		}
		refused.Store(false)
		pass(2 * time.Minute)
		w.ready("Receiver", "app", "True Succeeded")
		w.ready("Provider", "chat", "True Succeeded")
	})
}
