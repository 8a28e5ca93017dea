package reconcile

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "notifier/api/v1"
	"notifier/api/v1beta3"
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
	// show writes the parts of the status that only this kind has.
	show func(T, verdict)
	// details are the parts of the status that another definition of the kind may lack, such as Flux's own or an earlier release's.
	details []detail[T]
}

// statusDelay gives the cache time to receive our own last write. Without it the next write would end in a conflict.
const statusDelay = 100 * time.Millisecond

// pendingPause is the least delay of a first status of an object in service that waits for the watchers' cache to be filled, as in the first
// seconds of a start.
const pendingPause = time.Second

// statusController writes the status of one kind's objects and records Events about them, while this replica leads.
type statusController[T kube.Object] struct {
	*Reconciler
	kind *kindOf[T]
	statusOptions[T]
	writer *kube.StatusWriter[T]
	queue  *kube.Controller[kube.Key]
	// pruned has for each of the details when the API server last dropped it, nil for never.
	pruned []atomic.Pointer[time.Time]

	mu sync.Mutex
	// shown has nil for each object that existed when this term began and has not been reconciled since. A first good verdict on one causes
	// no Event: else an installation would cause thousands. Of a kind without status it has the conditions of the other objects.
	shown map[kube.Key][]metav1.Condition
}

// newStatusController returns the controller without its queue.
func newStatusController[T kube.Object](r *Reconciler, k *kindOf[T], o statusOptions[T]) *statusController[T] {
	s := &statusController[T]{
		Reconciler: r, kind: k, statusOptions: o,
		writer: kube.NewStatusWriter(k.resource), shown: map[kube.Key][]metav1.Condition{}, pruned: make([]atomic.Pointer[time.Time], len(o.details)),
	}
	s.writer.Kept = s.kept
	return s
}

// reconcile writes the status of one object if it changed, or removes Flux's finalizer from an object that is being deleted.
func (s *statusController[T]) reconcile(ctx context.Context, k kube.Key) error {
	if !s.leads() {
		return nil // the next leader enqueues all
	}
	object, ok := s.kind.objects.Get(k)
	if !ok {
		s.forget(k)
		return nil
	}
	if object.GetDeletionTimestamp() != nil {
		return release(ctx, s.kind.resource, object)
	}
	v, ok := s.kind.verdicts.on(object)
	if !ok || v.generation != object.GetGeneration() {
		return nil // the object is compiled first, which enqueues it again
	}
	if s.refine != nil {
		if v, ok = s.refine(object, v); !ok {
			return nil
		}
	}
	if v.ready && meta.FindStatusCondition(*object.Conditions(), s.outcome) == nil && s.matches.pending(mentionsOf(object)) {
		s.queue.EnqueueAfter(k, pendingPause+rand.N(pendingPause))
		return nil
	}
	written := object
	wrote, err := s.writer.Write(ctx, object, func(o T) {
		s.apply(o, v)
		written = o
	})
	if err != nil {
		return err
	}
	after := s.again(written)
	s.queue.EnqueueAfter(k, after+rand.N(after/10)) // the jitter separates objects that were made together
	hasStatus, now := s.writer.HasStatus(), *written.Conditions()
	before, found := s.replace(object, hasStatus, now)
	if !wrote && hasStatus {
		return nil
	}
	s.warn(object, before, now)
	if s.isNews(before, v, found) {
		s.record(object, v)
	}
	return nil
}

// again returns the delay until the status of an object is checked for facts that nothing reports.
func (s *statusController[T]) again(o kube.Object) time.Duration {
	losses := max(lookForLosses, lossesEnd(o))
	if s.kind.name == v1beta3.ProviderKind { // it names no objects
		return losses
	}
	return min(losses, s.matches.again(o))
}

// replace notes that an object is reconciled, with the conditions now. It returns the former ones, and whether the object existed when this
// term began and is reconciled for the first time.
func (s *statusController[T]) replace(o T, hasStatus bool, now []metav1.Condition) (before []metav1.Condition, found bool) {
	k := kube.KeyOf(o)
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.shown[k]
	found = known && before == nil
	if !hasStatus {
		s.shown[k] = now
		return before, found
	}
	if delete(s.shown, k); known && len(s.shown) == 0 {
		s.shown = map[kube.Key][]metav1.Condition{} // a map keeps the memory of its deleted entries
	}
	return *o.Conditions(), found
}

// apply writes a verdict and the object's health into its status.
func (s *statusController[T]) apply(o T, v verdict) {
	conditions := o.Conditions()
	if s.outcome == v1.ReadyCondition {
		applyReady(conditions, v)
	} else {
		applyAccepted(conditions, v)
	}
	showHealth(o, v.generation, s.reports(s.kind.name, o))
	s.show(o, v)
	for i, d := range s.details {
		if at := s.pruned[i].Load(); at == nil || time.Since(*at) >= prunedFor {
			d.write(o)
		}
	}
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

// kept compares the sent status with the status that the API server kept.
func (s *statusController[T]) kept(sent, kept T) {
	for i, d := range s.details {
		if d.shown(sent) && !d.shown(kept) {
			now := time.Now()
			s.pruned[i].Store(&now)
		}
	}
}

// isNews reports whether a verdict differs from the object's former conditions. If there are none, a bad verdict always differs, and a
// good one unless the object was found by this term.
func (s *statusController[T]) isNews(before []metav1.Condition, v verdict, found bool) bool {
	shown := meta.FindStatusCondition(before, s.outcome)
	if shown == nil {
		return !found || !v.ready
	}
	is := v.condition(s.outcome, v.ready && (s.outcome == v1.ReadyCondition || v.serving()))
	is.LastTransitionTime = shown.LastTransitionTime
	return is != *shown
}

// record records an Event about a verdict.
func (s *statusController[T]) record(o T, v verdict) {
	if v.ready && v.lack.reason != "" {
		s.tell(s.kind.name, o, false, v.lack.reason, v.lack.message)
		return
	}
	s.tell(s.kind.name, o, v.ready, v.event, v.eventMessage)
}

// tell records an Event about an object, a warning unless all is well.
func (r *Reconciler) tell(kind string, o kube.Object, well bool, reason, message string) {
	eventType := corev1.EventTypeNormal
	if !well {
		eventType = corev1.EventTypeWarning
	}
	r.options.Events.Event(kind, o.GetNamespace(), o.GetName(), string(o.GetUID()), eventType, reason, message)
}

// warn records an Event for each problem that is new in the conditions now, compared with before.
func (s *statusController[T]) warn(o T, before, now []metav1.Condition) {
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
			s.tell(s.kind.name, o, false, is.Reason, is.Message)
		}
	}
}

// recounted reports whether only the number of matching objects changed, which causes no Event.
func recounted(was, is *metav1.Condition) bool {
	return is.Type == matchingCondition && was.Reason == is.Reason && was.ObservedGeneration == is.ObservedGeneration
}

func (s *statusController[T]) forget(k kube.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.shown, k)
}

// begin begins a term, before any write. It notes the present objects in place of what an earlier term noted: another replica may have
// reported about them since.
func (s *statusController[T]) begin() {
	objects := s.kind.objects.All()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown = make(map[kube.Key][]metav1.Condition, len(objects))
	for _, o := range objects {
		s.shown[kube.KeyOf(o)] = nil
	}
}
