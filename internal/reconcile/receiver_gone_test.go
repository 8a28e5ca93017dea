package reconcile

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "notifier/api/v1"
	"notifier/internal/reconcile/kube"
)

// T6. Fails when the queue keeps a deleted Receiver until its interval is over, which may be a year: a tenant that makes and deletes Receivers,
// each under a new name, would take more memory all the time.
func TestT6ADeletedReceiverWithALongIntervalIsSoonForgotten(t *testing.T) {
	r := newReceiver("app", func(r *v1.Receiver) { r.Spec.Interval = &metav1.Duration{Duration: 48 * time.Hour} })
	play(t, settings{objects: []runtime.Object{r}, secrets: []*corev1.Secret{newSecret("hook", "token", "t")}}, func(w *world) {
		compiled := func() float64 {
			return testutil.ToFloat64(w.metrics.results.WithLabelValues(v1.ReceiverKind, stageCompile, string(kube.ResultOK)))
		}
		w.remove("Receiver", "app")
		pass(2 * time.Hour)
		before := compiled()
		pass(72 * time.Hour)
		if got := compiled() - before; got != 0 {
			t.Errorf("reconciles of the Receiver more than two hours after it was deleted: got %v, want 0", got)
		}
	})
}
