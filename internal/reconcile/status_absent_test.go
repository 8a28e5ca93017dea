package reconcile

import (
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"notifier/api/v1beta3"
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
			return true, nil, apierrors.NewNotFound(v1beta3.Resource("providers").GroupResource(), "x")
		})
	}
	play(t, s, func(w *world) {
		pass(20 * time.Minute)
		replaced.Store(true)
		pass(15 * time.Minute)
		w.ready("Provider", "chat", "True Succeeded")
	})
}
