package reconcile

import (
	"context"
	"time"

	"notifier/internal/reconcile/kube"
)

// recountEach is the time between two recounts of a namespace for each of its Alerts and Receivers, so that objects that change all the
// time cause at most two recounts a second, each of which may write a status. A namespace of more than 1,200 is recounted every
// lookAgainLate.
const recountEach = 500 * time.Millisecond

// newRecounts returns the queue of the namespaces whose watched objects changed.
func (r *Reconciler) newRecounts() *kube.Controller[string] {
	return kube.NewController(kube.ControllerOptions[string]{
		Workers: 1, Reconcile: r.recount, Log: r.log,
		Parts: func(namespace string) (string, string) { return namespace, "" },
	})
}

// ObjectsChanged reports that watched objects of a namespace were made or deleted, or that their labels changed. The condition Matching of
// the namespace's Alerts and Receivers is soon written anew: objects that are applied together, or replaced, cause one count. It does not
// block.
func (r *Reconciler) ObjectsChanged(namespace string) {
	counted := len(r.alerts.objects.InNamespace(namespace)) + len(r.receivers.objects.InNamespace(namespace))
	if counted > 0 && r.leads() { // otherwise the first status of each counts
		r.recounts.EnqueueAfter(namespace, min(max(lookAgainSoon, time.Duration(counted)*recountEach), lookAgainLate))
	}
}

// recount enqueues the status of a namespace's Alerts and Receivers.
func (r *Reconciler) recount(_ context.Context, namespace string) error {
	for _, kind := range []anyKind{r.alerts, r.receivers} {
		for _, k := range kind.keysIn(namespace) {
			kind.restate(k)
		}
	}
	return nil
}
