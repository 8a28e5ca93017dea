package reconcile

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "notifier/api/v1"
	"notifier/internal/reconcile/kube"
)

// EventRecorder records Kubernetes Events; recorder.Recorder is one.
type EventRecorder interface {
	Event(kind, namespace, name, uid, eventType, reason, message string)
}

// subject is an object of the three kinds.
type subject interface {
	kube.Object
	Conditions() *[]metav1.Condition
	Problem() *string
}

// statusOptions are what differs between the statuses of the kinds. The functions may be nil.
type statusOptions[T subject] struct {
	// outcome is the condition of the verdict: Ready, or Serving for a kind whose Ready only reports that an object was accepted.
	outcome string
	// refine completes a verdict with facts that are read at the time of writing. It returns false while a fact is missing whose arrival
	// enqueues the object.
	refine func(T, verdict) (_ verdict, complete bool)
	// pending reports that a fact for the status of an object in service is not known yet, as in the first seconds of a start. The first
	// status of the object then waits for it.
	pending func(T) bool
	// show writes the parts of the status that only this kind has.
	show func(T, verdict)
	// again returns the delay until an object is enqueued again; nil for never.
	again func(T) time.Duration
	// details are the parts of the status that another definition of the kind may lack, such as Flux's own or an earlier release's.
	details []detail[T]
	// wrote is called with each object whose status was written.
	wrote func(T)
}

// statusDelay gives the cache time to receive our own last write. Without it the next write would end in a conflict.
const statusDelay = 100 * time.Millisecond

// pendingPause is the least delay of a first status that waits for a fact.
const pendingPause = time.Second

// statusController writes the status of one kind's objects and records Events about them, while this replica leads.
type statusController[T subject, L runtime.Object] struct {
	kind *kindOf[T, L]
	statusOptions[T]
	health  *healthTable
	leading *atomic.Bool
	events  EventRecorder
	writer  *kube.StatusWriter[T, L]
	queue   *kube.Controller[kube.Key]
	// pruned reports for each of the details whether the kind's definition lacks it.
	pruned []pruned

	mu sync.Mutex
	// recorded has the hashes of the verdicts that an Event recorded in this term, so that none is recorded twice. That could happen when
	// the cache is behind our own write, or when the kind has no status to compare with. It has at most one entry for each object.
	recorded map[kube.Key]uint64
	seed     maphash.Seed
	// conditions are those of this term, used if the kind has no status to compare with.
	conditions map[kube.Key][]metav1.Condition
	// found are the objects that existed when this term began and have not been reconciled since. A first good verdict on one causes no
	// Event: else an installation would cause thousands.
	found map[kube.Key]struct{}
}

func newStatusController[T subject, L runtime.Object](
	r *Reconciler, k *kindOf[T, L], o statusOptions[T], queue kube.ControllerOptions[kube.Key],
) *statusController[T, L] {
	s := &statusController[T, L]{
		kind: k, statusOptions: o, health: r.health, leading: &r.leading, events: r.options.Events,
		writer: kube.NewStatusWriter(k.resource), recorded: map[kube.Key]uint64{}, seed: maphash.MakeSeed(), found: map[kube.Key]struct{}{},
		conditions: map[kube.Key][]metav1.Condition{}, pruned: make([]pruned, len(o.details)),
	}
	s.writer.Kept = s.kept
	queue.Name = k.name + " status"
	queue.Reconcile = s.reconcile
	queue.Delay = statusDelay
	s.queue = kube.NewController(queue)
	return s
}

// reconcile writes the status of one object if it changed, or removes Flux's finalizer from an object that is being deleted.
func (s *statusController[T, L]) reconcile(ctx context.Context, k kube.Key) error {
	if !s.leading.Load() {
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
	if s.pending != nil && v.ready && meta.FindStatusCondition(*object.Conditions(), s.outcome) == nil && s.pending(object) {
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
	if s.again != nil {
		after := s.again(written)
		s.queue.EnqueueAfter(k, after+rand.N(after/10)) // the jitter separates objects that were made together
	}
	now := *written.Conditions()
	switch {
	case wrote:
		s.warn(object, *object.Conditions(), now)
	case !s.writer.HasStatus():
		s.warn(object, s.unwritten(k, now), now)
	}
	found := s.take(k)
	if wrote && s.isNews(object, v, found) || !wrote && !s.writer.HasStatus() {
		s.record(object, v, wrote)
	}
	return nil
}

// take reports whether an object existed when this term began and is reconciled for the first time.
func (s *statusController[T, L]) take(k kube.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, found := s.found[k]
	if delete(s.found, k); len(s.found) == 0 {
		s.found = nil // a map keeps the memory of its deleted entries
	}
	return found
}

// apply writes a verdict and the object's health into its status.
func (s *statusController[T, L]) apply(o T, v verdict) {
	conditions := o.Conditions()
	if s.outcome == v1.ReadyCondition {
		applyReady(conditions, v)
	} else {
		applyAccepted(conditions, v)
	}
	s.health.show(s.kind.name, o, v.generation, conditions)
	if s.show != nil {
		s.show(o, v)
	}
	for i, d := range s.details {
		if !s.pruned[i].lately(time.Now()) {
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
func (s *statusController[T, L]) kept(sent, kept T) {
	for i, d := range s.details {
		if d.shown(sent) && !d.shown(kept) {
			s.pruned[i].note(time.Now())
		}
	}
	if s.wrote != nil {
		s.wrote(sent)
	}
}

// isNews reports whether a verdict differs from the object's former status. If there is none, a bad verdict always differs, and a good
// one unless the object was found by this term.
func (s *statusController[T, L]) isNews(before T, v verdict, found bool) bool {
	shown := meta.FindStatusCondition(*before.Conditions(), s.outcome)
	if shown == nil {
		return !found || !v.ready
	}
	is := v.condition(s.outcome, v.ready && (s.outcome == v1.ReadyCondition || v.serving()))
	is.LastTransitionTime = shown.LastTransitionTime
	return is != *shown
}

// record records an Event about a verdict, unless it is the same as the last. Of a kind without status it does not record a first good
// verdict: every term would repeat it for every object.
func (s *statusController[T, L]) record(o T, v verdict, written bool) {
	k := kube.KeyOf(o)
	s.mu.Lock()
	before, known := s.recorded[k]
	told := v
	told.requestedAt = "" // a request alone is nothing to tell
	now := maphash.Comparable(s.seed, told)
	s.recorded[k] = now
	s.mu.Unlock()
	if known && before == now || !known && !written && v.ready {
		return
	}
	eventType := corev1.EventTypeNormal
	switch {
	case !v.ready:
		eventType = corev1.EventTypeWarning
	case v.lack.reason != "":
		eventType, v.event, v.eventMessage = corev1.EventTypeWarning, v.lack.reason, v.lack.message
	}
	s.events.Event(s.kind.name, o.GetNamespace(), o.GetName(), string(o.GetUID()), eventType, v.event, v.eventMessage)
}

// unwritten stores the conditions of an object whose kind has no status, and returns the former ones.
func (s *statusController[T, L]) unwritten(k kube.Key, now []metav1.Condition) (before []metav1.Condition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.conditions[k] = s.conditions[k], now
	return before
}

// warn records an Event for each problem that is new in the conditions now, compared with before.
func (s *statusController[T, L]) warn(o T, before, now []metav1.Condition) {
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
			s.events.Event(s.kind.name, o.GetNamespace(), o.GetName(), string(o.GetUID()), corev1.EventTypeWarning, is.Reason, is.Message)
		}
	}
}

// recounted reports whether only the number of matching objects changed, which causes no Event.
func recounted(was, is *metav1.Condition) bool {
	return is.Type == matchingCondition && was.Reason == is.Reason && was.ObservedGeneration == is.ObservedGeneration
}

func (s *statusController[T, L]) forget(k kube.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.recorded, k)
	delete(s.conditions, k)
	delete(s.found, k)
}

// begin begins a term, before any write. It forgets the recorded Events, since another replica may have recorded others since, and notes
// the present objects as found.
func (s *statusController[T, L]) begin() {
	objects := s.kind.objects.All()
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.recorded)
	clear(s.conditions)
	s.found = make(map[kube.Key]struct{}, len(objects))
	for _, o := range objects {
		s.found[kube.KeyOf(o)] = struct{}{}
	}
}

// run processes the queue until ctx ends.
func (s *statusController[T, L]) run(ctx context.Context) error {
	if err := s.queue.Run(ctx); err != nil {
		return fmt.Errorf("status: %w", err)
	}
	return nil
}
