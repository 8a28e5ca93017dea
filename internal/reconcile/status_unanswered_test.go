package reconcile

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	v1 "notifier/api/v1"
	"notifier/internal/reconcile/kube"
)

// The API server writes a status, and its answer is lost. Fails when the owner has no Event about what the status tells, because the next try
// finds nothing to write, or has one for each try. Also fails when a good object that a new worker finds has one.
func TestAnEventIsRecordedAlthoughTheAnswerToTheStatusIsLost(t *testing.T) {
	s, lost := oneOfEach(), 2
	bad := newProvider("bad", func(p *v1.Provider) { p.Spec.Address = "" })
	s.objects = append(s.objects, bad)
	s.prepare = func(w *world) {
		w.cluster.PrependReactor("update", "providers", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if lost == 0 {
				return false, nil, nil
			}
			lost--
			o := a.(clienttesting.UpdateAction).GetObject().DeepCopyObject().(*v1.Provider)
			if err := w.cluster.Tracker.Update(resources[v1.ProviderKind], o, o.Namespace); err != nil {
				t.Error(err)
			}
			return true, nil, apierrors.NewTimeoutError("no answer", 0)
		})
	}
	play(t, s, func(w *world) {
		one := func(when, want string) {
			t.Helper()
			w.settle()
			if told := w.events.take(); lost > 0 || len(told) != 1 || !strings.HasPrefix(told[0], want) {
				t.Errorf("%s: events %q, want one, %s; %d answers are still to be lost", when, told, want, lost)
			}
		}
		one("at the start", "Provider team-a/bad uid-bad Warning InvalidConfig")
		good := w.live(v1.ProviderKind, "bad").(*v1.Provider)
		good.Spec.Address, good.Generation, lost = "https://chat.test/x", good.Generation+1, 1
		w.apply(v1.ProviderKind, kube.Object(good))
		one("mended", "Provider team-a/bad uid-bad Normal Succeeded")
	})
}
