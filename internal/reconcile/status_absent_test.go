package reconcile

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	v1 "notifier/api/v1"
)

// Fails when the status of an object stays empty for long after Flux's CRDs were replaced by ours: nothing else has it written.
func TestStatusesAreWrittenSoonAfterTheDefinitionsAreReplaced(t *testing.T) {
	var replaced atomic.Bool
	s := oneOfEach()
	s.prepare = func(w *world) {
		w.cluster.PrependReactor("update", "providers", func(clienttesting.Action) (bool, runtime.Object, error) {
			if replaced.Load() {
				return false, nil, nil
			}
			return true, nil, apierrors.NewNotFound(v1.Resource("providers").GroupResource(), "x")
		})
	}
	play(t, s, func(w *world) {
		pass(20 * time.Minute)
		replaced.Store(true)
		pass(15 * time.Minute)
		w.ready("Provider", "chat", "True Succeeded")
	})
}

// On Flux's own CRDs, where nothing but an Event reports a fault. Fails when an object that is made again at once, as by "kubectl replace
// --force", has no Event of its own because it has the fault of the former one.
func TestAnObjectWithoutStatusThatIsMadeAgainHasEventsOfItsOwn(t *testing.T) {
	s := oneOfEach()
	bad := newProvider("bad", func(p *v1.Provider) { p.Spec.Address = "" })
	s.objects = append(s.objects, bad)
	s.prepare = func(w *world) {
		w.cluster.PrependReactor("update", "providers", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewNotFound(v1.Resource("providers").GroupResource(), "x")
		})
	}
	play(t, s, func(w *world) {
		for _, uid := range []string{"uid-bad", "uid-again"} {
			if told := w.events.take(); len(told) != 1 || !strings.HasPrefix(told[0], "Provider team-a/bad "+uid+" Warning InvalidConfig") {
				t.Errorf("events of %s: %q", uid, told)
			}
			again := newProvider("bad", func(p *v1.Provider) { p.Spec.Address, p.UID = "", "uid-again" })
			if err := w.cluster.Tracker.Delete(resources[v1.ProviderKind], "team-a", "bad"); err != nil {
				t.Fatal(err)
			}
			w.apply(v1.ProviderKind, again)
		}
	})
}
