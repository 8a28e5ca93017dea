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

// EventRecorder records Kubernetes Events; Recorder is one.
type EventRecorder interface {
	Event(kind, namespace, name, uid, eventType, reason, message string)
}

// subject is an object of the three kinds.
type subject interface {
	kube.Object
	Conditions() *[]metav1.Condition
	Problem() *string
}

// statusOptions configure a statusController; those of the kind itself may be nil.
type statusOptions[T subject, L runtime.Object] struct {
	kind     string
	resource kube.Resource[T, L]
	objects  *kube.Informer[T]
	verdicts *verdicts
	health   *healthTable
	leading  *atomic.Bool
	events   EventRecorder
	// outcome is the condition that a verdict becomes: Ready or, for a kind whose Ready only says that an object was accepted, Serving.
	outcome string
	// refine adds to a verdict what only the moment of writing knows.
	refine func(T, verdict) verdict
	// show writes the parts of the status that only this kind has.
	show func(T, verdict)
	// again, unless nil, is how soon an object is to be looked at again.
	again func(T) time.Duration
	// details are the parts of the status that another definition of the kind may lack, Flux's own or that of an earlier release.
	details []detail[T]
	// wrote is called with each object whose status was written.
	wrote func(T)
}

// statusDelay lets the cache catch up with our own last write, which would end in a conflict otherwise.
const statusDelay = 100 * time.Millisecond

// statusController tells the owners of one kind's objects how they fare, while this replica leads.
type statusController[T subject, L runtime.Object] struct {
	statusOptions[T, L]
	writer *kube.StatusWriter[T, L]
	queue  *kube.Controller[kube.Key]
	// pruned says, for each of the details, that the kind's definition lacks it.
	pruned []pruned

	mu sync.Mutex
	// recorded holds the hashes of the verdicts that were recorded by an Event in this leadership, so that none is recorded twice: neither
	// when the cache is behind our own write, nor when the kind has no status to compare with. It has no more entries than there are objects.
	recorded map[kube.Key]uint64
	seed     maphash.Seed
	// conditions are those of this leadership, where the kind has no status to compare with.
	conditions map[kube.Key][]metav1.Condition
	// found are the objects that were there when this leadership began and were not looked at since. That all is well with one is no
	// news, though its status does not say so yet: thousands would get an Event when the program is installed.
	found map[kube.Key]struct{}
}

func newStatusController[T subject, L runtime.Object](o statusOptions[T, L], queue kube.ControllerOptions[kube.Key]) *statusController[T, L] {
	s := &statusController[T, L]{
		statusOptions: o, writer: kube.NewStatusWriter(o.resource), recorded: map[kube.Key]uint64{}, seed: maphash.MakeSeed(), found: map[kube.Key]struct{}{},
		conditions: map[kube.Key][]metav1.Condition{}, pruned: make([]pruned, len(o.details)),
	}
	s.writer.Kept = s.kept
	queue.Name = o.kind + " status"
	queue.Reconcile = s.reconcile
	queue.Delay = statusDelay
	s.queue = kube.NewController(queue)
	return s
}

// reconcile brings the status of one object up to date.
func (s *statusController[T, L]) reconcile(ctx context.Context, k kube.Key) error {
	if !s.leading.Load() {
		return nil // whoever leads next enqueues all
	}
	object, ok := s.objects.Get(k)
	if !ok {
		s.forget(k)
		return nil
	}
	if object.GetDeletionTimestamp() != nil {
		return release(ctx, s.resource, object)
	}
	v, ok := s.verdicts.get(k)
	if !ok || v.uid != object.GetUID() || v.generation != object.GetGeneration() {
		return nil // compiling comes first and enqueues again
	}
	if s.refine != nil {
		v = s.refine(object, v)
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
		s.queue.EnqueueAfter(k, after+rand.N(after/10)) // spread a little, for those that were made together
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

// take reports whether an object was found by this leadership and is looked at for the first time.
func (s *statusController[T, L]) take(k kube.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, found := s.found[k]
	if delete(s.found, k); len(s.found) == 0 {
		s.found = nil // a map keeps the room of all that was in it
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
	s.health.show(s.kind, o, v.generation, conditions)
	if s.show != nil {
		s.show(o, v)
	}
	for i, d := range s.details {
		if !s.pruned[i].lately(time.Now()) {
			d.write(o)
		}
	}
}

// applyReady writes the conditions of a kind whose Ready tells the verdict, with what kstatus, and with it Flux's health checks,
// need to tell "not yet" from "never".
func applyReady(conditions *[]metav1.Condition, v verdict) {
	meta.SetStatusCondition(conditions, v.condition(v1.ReadyCondition, v.ready))
	switch {
	case v.ready:
		meta.RemoveStatusCondition(conditions, v1.ReconcilingCondition)
		meta.RemoveStatusCondition(conditions, v1.StalledCondition)
	case v.retried:
		meta.RemoveStatusCondition(conditions, v1.StalledCondition)
		reconciling := v.condition(v1.ReconcilingCondition, true)
		reconciling.Reason = v1.ProgressingWithRetryReason
		meta.SetStatusCondition(conditions, reconciling)
	default:
		meta.RemoveStatusCondition(conditions, v1.ReconcilingCondition)
		meta.SetStatusCondition(conditions, v.condition(v1.StalledCondition, true))
	}
}

// applyAccepted writes those of a kind that Flux takes for ready whatever it says: nothing but Serving tells what is wrong.
func applyAccepted(conditions *[]metav1.Condition, v verdict) {
	meta.SetStatusCondition(conditions, v.condition(v1.ServingCondition, v.serving()))
	accepted := v
	if !v.serving() {
		accepted.reason, accepted.message = v1.AcceptedReason, "accepted; the condition Serving tells why not all of it is in use"
	}
	meta.SetStatusCondition(conditions, accepted.condition(v1.ReadyCondition, true))
	meta.RemoveStatusCondition(conditions, v1.ReconcilingCondition)
	meta.RemoveStatusCondition(conditions, v1.StalledCondition)
}

// kept compares what status was sent to the API server and what it kept of it.
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

// isNews reports whether a verdict says anything else than the status that the object, found by this leadership or not, had before.
func (s *statusController[T, L]) isNews(before T, v verdict, found bool) bool {
	shown := meta.FindStatusCondition(*before.Conditions(), s.outcome)
	if shown == nil {
		return !found || !v.ready
	}
	is := v.condition(s.outcome, v.ready && (s.outcome == v1.ReadyCondition || v.serving()))
	is.LastTransitionTime = shown.LastTransitionTime
	return is != *shown
}

// record records an Event about a verdict. Of a kind without status it does not record that all is well from the start: every leadership
// would tell it again about every object.
func (s *statusController[T, L]) record(o T, v verdict, written bool) {
	k := kube.KeyOf(o)
	s.mu.Lock()
	before, known := s.recorded[k]
	now := maphash.Comparable(s.seed, v)
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
	s.events.Event(s.kind, o.GetNamespace(), o.GetName(), string(o.GetUID()), eventType, v.event, v.eventMessage)
}

// unwritten keeps the conditions of an object that has no status to keep them, and returns those before.
func (s *statusController[T, L]) unwritten(k kube.Key, now []metav1.Condition) (before []metav1.Condition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.conditions[k] = s.conditions[k], now
	return before
}

// warn tells what went wrong with an object at work by Events, once a change. It had conditions before and has others now.
func (s *statusController[T, L]) warn(o T, before, now []metav1.Condition) {
	for _, t := range troubles {
		is := meta.FindStatusCondition(now, t.condition)
		if !t.announced || is == nil || is.Status != t.when {
			continue
		}
		if t.condition == DeliveringCondition && meta.IsStatusConditionFalse(now, v1.ServingCondition) {
			continue // it follows from what the verdict's Event says
		}
		was := meta.FindStatusCondition(before, t.condition)
		if was == nil || was.Status != is.Status || was.Message != is.Message && !recounted(was, is) {
			s.events.Event(s.kind, o.GetNamespace(), o.GetName(), string(o.GetUID()), corev1.EventTypeWarning, is.Reason, is.Message)
		}
	}
}

// recounted reports whether nothing but the number of objects that match has changed, which is no news.
func recounted(was, is *metav1.Condition) bool {
	return is.Type == MatchingCondition && was.Reason == is.Reason && was.ObservedGeneration == is.ObservedGeneration
}

func (s *statusController[T, L]) forget(k kube.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.recorded, k)
	delete(s.conditions, k)
	delete(s.found, k)
}

// begin begins a leadership, before anything is written. Another replica may have recorded Events since this one led, and the objects
// that are there now were found.
func (s *statusController[T, L]) begin() {
	objects := s.objects.All()
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.recorded)
	clear(s.conditions)
	s.found = make(map[kube.Key]struct{}, len(objects))
	for _, o := range objects {
		s.found[kube.KeyOf(o)] = struct{}{}
	}
}

// enqueueAll has all objects looked at, once this replica leads.
func (s *statusController[T, L]) enqueueAll() {
	for _, o := range s.objects.All() {
		s.queue.Enqueue(kube.KeyOf(o))
	}
}

// run works the queue until ctx ends.
func (s *statusController[T, L]) run(ctx context.Context) error {
	if err := s.queue.Run(ctx); err != nil {
		return fmt.Errorf("status: %w", err)
	}
	return nil
}
