package reconcile

import (
	"context"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "notifier/api/v1"
	"notifier/internal/reconcile/kube"
)

// EventRecorder records Kubernetes Events; recorder.Recorder is one.
type EventRecorder interface {
	Event(kind, namespace, name, uid, eventType, reason, message string)
}

// statusOptions are what differs between the statuses of the kinds. refine may be nil.
type statusOptions[T kube.Object] struct {
	// outcome is the condition of the verdict: Ready, or Serving for a kind whose Ready only reports that an object was accepted.
	outcome string
	// refine completes a verdict with facts that are read at the time of writing. It returns false while a fact is missing whose arrival
	// enqueues the object.
	refine func(T, verdict) (_ verdict, complete bool)
	// show writes the parts of the status that only this kind has, when those that all have are written.
	show func(T, verdict)
}

// statusDelay gives the cache time to receive our own last write. Without it the next write would end in a conflict.
const statusDelay = 100 * time.Millisecond

// pendingPause is the least delay of a first status of an object in service that waits for the watchers' cache to be filled, as in the first
// seconds of a start.
const pendingPause = time.Second

// writeStatus writes the status of one object if it changed, and records Events about it, while this replica leads. It removes Flux's
// finalizer from an object that is being deleted.
func (k *kindOf[T]) writeStatus(ctx context.Context, key kube.Key) error {
	if !k.leads() {
		return nil // the next leader enqueues all
	}
	object, ok := k.objects.Get(key)
	if !ok {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.shown, key)
		return nil
	}
	if object.GetDeletionTimestamp() != nil {
		return release(ctx, k.resource, object)
	}
	v, ok := k.verdicts.on(object)
	if !ok || v.generation != object.GetGeneration() {
		return nil // the object is compiled first, which enqueues it again
	}
	if k.refine != nil {
		if v, ok = k.refine(object, v); !ok {
			return nil
		}
	}
	if v.ready && meta.FindStatusCondition(*object.Conditions(), k.outcome) == nil && k.matches.pending(mentionsOf(object)) {
		k.statusQueue.EnqueueAfter(key, pendingPause+rand.N(pendingPause))
		return nil
	}
	written := object
	wrote, err := k.writer.Write(ctx, object, func(o T) {
		k.apply(o, v)
		written = o
	})
	if err != nil {
		if !apierrors.IsConflict(err) {
			k.unanswered(object)
		}
		return err
	}
	after := k.again(written)
	if retry := k.writer.Retry(); retry > 0 {
		after = min(after, retry)
	}
	k.statusQueue.EnqueueAfter(key, after+rand.N(after/10)) // the jitter separates objects that were made together
	hasStatus, now := k.writer.HasStatus(), *written.Conditions()
	before, found, told := k.replace(object, hasStatus, now)
	if !wrote && hasStatus && told {
		return nil
	}
	k.warn(object, before, now)
	if k.isNews(before, v, found) {
		k.record(object, v)
	}
	return nil
}

// again returns the delay until the status of an object is checked for facts that nothing reports.
func (k *kindOf[T]) again(o kube.Object) time.Duration {
	losses := max(lookForLosses, lossesEnd(o))
	if k.name == v1.ProviderKind { // it names no objects
		return losses
	}
	return min(losses, k.matches.again(o))
}

// replace notes that an object is reconciled, with the conditions now. It returns those that its owner was told before, and whether the object
// existed when this term began and is reconciled for the first time. told reports that the owner was told what the object's status says.
func (k *kindOf[T]) replace(o T, hasStatus bool, now []metav1.Condition) (before []metav1.Condition, found, told bool) {
	key := kube.KeyOf(o)
	k.mu.Lock()
	defer k.mu.Unlock()
	was, known := k.shown[key]
	if was.uid != o.GetUID() {
		was = shownOf{} // of a former object of that name
	}
	before, told = was.conditions, was.conditions == nil
	if told && hasStatus {
		before = *o.Conditions()
	}
	if !hasStatus {
		k.shown[key] = shownOf{uid: o.GetUID(), conditions: now}
		return before, was.found, told
	}
	if delete(k.shown, key); known && len(k.shown) == 0 {
		k.shown = map[kube.Key]shownOf{} // a map keeps the memory of its deleted entries
	}
	return before, was.found, told
}

// unanswered notes that a write of an object's status failed, and may have been done nevertheless: the next one then has nothing to write.
func (k *kindOf[T]) unanswered(o T) {
	key := kube.KeyOf(o)
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.shown[key]
	if was.uid != o.GetUID() {
		was = shownOf{uid: o.GetUID()}
	}
	if was.conditions == nil {
		was.conditions = append([]metav1.Condition{}, *o.Conditions()...)
	}
	k.shown[key] = was
}

// apply writes a verdict and the object's health into its status.
func (k *kindOf[T]) apply(o T, v verdict) {
	conditions := o.Conditions()
	if k.outcome == v1.ReadyCondition {
		applyReady(conditions, v)
	} else {
		applyAccepted(conditions, v)
	}
	showHealth(o, v.generation, k.reports(k.name, o))
	k.show(o, v)
}

// applyReady writes the conditions of a kind whose Ready is the verdict. Reconciling and Stalled let kstatus, and with it Flux's health
// checks, distinguish "not yet" from "never".
func applyReady(conditions *[]metav1.Condition, v verdict) {
	meta.SetStatusCondition(conditions, v.condition(v1.ReadyCondition, v.ready))
	switch {
	case v.ready:
		removeCondition(conditions, v1.ReconcilingCondition)
		removeCondition(conditions, v1.StalledCondition)
	case v.retried:
		removeCondition(conditions, v1.StalledCondition)
		reconciling := v.condition(v1.ReconcilingCondition, true)
		reconciling.Reason = v1.ProgressingWithRetryReason
		meta.SetStatusCondition(conditions, reconciling)
	default:
		removeCondition(conditions, v1.ReconcilingCondition)
		meta.SetStatusCondition(conditions, v.condition(v1.StalledCondition, true))
	}
}

// removeCondition removes a condition if it is there. meta.RemoveStatusCondition makes a new list in any case.
func removeCondition(conditions *[]metav1.Condition, conditionType string) {
	if meta.FindStatusCondition(*conditions, conditionType) != nil {
		meta.RemoveStatusCondition(conditions, conditionType)
	}
}

// applyAccepted writes the conditions of a kind that Flux always regards as ready: only Serving reports faults.
func applyAccepted(conditions *[]metav1.Condition, v verdict) {
	meta.SetStatusCondition(conditions, v.condition(v1.ServingCondition, v.serving()))
	accepted := v
	if !v.serving() {
		accepted.reason, accepted.message = v1.AcceptedReason, "accepted; the condition Serving tells why not all of it is in use"
	}
	meta.SetStatusCondition(conditions, accepted.condition(v1.ReadyCondition, true))
	removeCondition(conditions, v1.ReconcilingCondition)
	removeCondition(conditions, v1.StalledCondition)
}

// isNews reports whether a verdict differs from the object's former conditions. If there are none, a bad verdict always differs, and a
// good one unless the object was found by this term.
func (k *kindOf[T]) isNews(before []metav1.Condition, v verdict, found bool) bool {
	shown := meta.FindStatusCondition(before, k.outcome)
	if shown == nil {
		return !found || !v.ready
	}
	is := v.condition(k.outcome, v.ready && (k.outcome == v1.ReadyCondition || v.serving()))
	is.LastTransitionTime = shown.LastTransitionTime
	return is != *shown
}

// record records an Event about a verdict.
func (k *kindOf[T]) record(o T, v verdict) {
	if v.ready && v.lack.reason != "" {
		k.tell(o, false, v.lack.reason, v.lack.message)
		return
	}
	k.tell(o, v.ready, v.event, v.eventMessage)
}

// tell records an Event about an object, a warning unless all is well.
func (k *kindOf[T]) tell(o T, well bool, reason, message string) {
	eventType := corev1.EventTypeNormal
	if !well {
		eventType = corev1.EventTypeWarning
	}
	k.options.Events.Event(k.name, o.GetNamespace(), o.GetName(), string(o.GetUID()), eventType, reason, message)
}

// warn records an Event for each problem that is new in the conditions now, compared with before.
func (k *kindOf[T]) warn(o T, before, now []metav1.Condition) {
	for _, t := range troubles {
		is := meta.FindStatusCondition(now, t.condition)
		if !t.announced || is == nil || is.Status != t.when {
			continue
		}
		if t.condition == deliveringCondition && meta.IsStatusConditionFalse(now, v1.ServingCondition) {
			continue // the verdict's Event explains it already
		}
		was := meta.FindStatusCondition(before, t.condition)
		if was == nil || was.Status != is.Status || was.Message != is.Message && !recounted(was, is) {
			k.tell(o, false, is.Reason, is.Message)
		}
	}
}

// recounted reports whether only the number of matching objects changed, which causes no Event.
func recounted(was, is *metav1.Condition) bool {
	return is.Type == matchingCondition && was.Reason == is.Reason && was.ObservedGeneration == is.ObservedGeneration
}

// begin begins a term, before any write. It notes the present objects in place of what an earlier term noted: another replica may have
// reported about them since.
func (k *kindOf[T]) begin() {
	objects := k.objects.All()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.shown = make(map[kube.Key]shownOf, len(objects))
	for _, o := range objects {
		k.shown[kube.KeyOf(o)] = shownOf{uid: o.GetUID(), found: true}
	}
}
