package reconcile

import (
	"context"
	"fmt"
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
	ObservedGeneration() *int64
}

// statusOptions configure a statusController; all but refine and show are required.
type statusOptions[T subject, L runtime.Object] struct {
	kind     string
	resource kube.Resource[T, L]
	objects  *kube.Informer[T]
	verdicts *verdicts
	health   *healthTable
	leading  *atomic.Bool
	events   EventRecorder
	// refine adds to a verdict what only the moment of writing knows.
	refine func(T, verdict) verdict
	// show writes the parts of the status that only this kind has.
	show func(T, verdict)
	// again, unless nil, is how soon an object is to be looked at again.
	again func(T) time.Duration
}

// statusDelay lets the cache catch up with our own last write, which would end in a conflict otherwise.
const statusDelay = 100 * time.Millisecond

// statusController tells the owners of one kind's objects how they fare, while this replica leads.
type statusController[T subject, L runtime.Object] struct {
	statusOptions[T, L]
	writer *kube.StatusWriter[T, L]
	queue  *kube.Controller

	mu sync.Mutex
	// told holds the verdicts that were told by an Event in this leadership, so that none is told twice: neither when the cache is
	// behind our own write, nor when the kind has no status to compare with. It has no more entries than there are objects.
	told map[kube.Key]verdict
	// found are the objects that were there when this leadership began and were not looked at since. That all is well with one is no
	// news, though its status does not say so yet: thousands would get an Event when the program is installed.
	found map[kube.Key]struct{}
}

func newStatusController[T subject, L runtime.Object](o statusOptions[T, L], queue kube.ControllerOptions) *statusController[T, L] {
	s := &statusController[T, L]{statusOptions: o, writer: kube.NewStatusWriter(o.resource), told: map[kube.Key]verdict{}, found: map[kube.Key]struct{}{}}
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
	found := s.take(k)
	if wrote && isNews(object, v, found) || !wrote && !s.writer.HasStatus() {
		s.record(object, v, wrote)
	}
	if wrote {
		s.recordDenied(object)
	}
	return nil
}

// take reports whether an object was found by this leadership and is looked at for the first time.
func (s *statusController[T, L]) take(k kube.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, found := s.found[k]
	delete(s.found, k)
	return found
}

// apply writes a verdict and the object's health into its status.
func (s *statusController[T, L]) apply(o T, v verdict) {
	conditions := o.Conditions()
	*o.ObservedGeneration() = v.generation
	ready := metav1.Condition{
		Type: v1.ReadyCondition, Status: metav1.ConditionFalse, Reason: v.reason, Message: v.message, ObservedGeneration: v.generation,
	}
	if v.ready {
		ready.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(conditions, ready)
	// What kstatus, and with it Flux's health checks, need to tell "not yet" from "never".
	switch {
	case v.ready:
		meta.RemoveStatusCondition(conditions, v1.ReconcilingCondition)
		meta.RemoveStatusCondition(conditions, v1.StalledCondition)
	case v.retried:
		meta.RemoveStatusCondition(conditions, v1.StalledCondition)
		meta.SetStatusCondition(conditions, metav1.Condition{
			Type: v1.ReconcilingCondition, Status: metav1.ConditionTrue, Reason: v1.ProgressingWithRetryReason,
			Message: v.message, ObservedGeneration: v.generation,
		})
	default:
		meta.RemoveStatusCondition(conditions, v1.ReconcilingCondition)
		meta.SetStatusCondition(conditions, metav1.Condition{
			Type: v1.StalledCondition, Status: metav1.ConditionTrue, Reason: v.reason, Message: v.message, ObservedGeneration: v.generation,
		})
	}
	s.health.show(s.kind, kube.KeyOf(o), o.GetUID(), v.generation, conditions)
	if s.show != nil {
		s.show(o, v)
	}
}

// isNews reports whether a verdict says anything else than the status that the object, found by this leadership or not, had before.
func isNews[T subject](before T, v verdict, found bool) bool {
	ready := meta.FindStatusCondition(*before.Conditions(), v1.ReadyCondition)
	if ready == nil {
		return !found || !v.ready
	}
	return ready.ObservedGeneration != v.generation || ready.Reason != v.reason || ready.Message != v.message ||
		(ready.Status == metav1.ConditionTrue) != v.ready
}

// record tells a verdict by an Event. Of a kind without status it is not told that all is well from the start: every leadership
// would tell it again about every object.
func (s *statusController[T, L]) record(o T, v verdict, written bool) {
	k := kube.KeyOf(o)
	s.mu.Lock()
	before, known := s.told[k]
	s.told[k] = v
	s.mu.Unlock()
	if known && before == v || !known && !written && v.ready {
		return
	}
	eventType := corev1.EventTypeNormal
	switch {
	case !v.ready:
		eventType = corev1.EventTypeWarning
	case v.lack.reason != "":
		eventType, v.event, v.told = corev1.EventTypeWarning, v.lack.reason, v.lack.message
	}
	s.events.Event(s.kind, o.GetNamespace(), o.GetName(), string(o.GetUID()), eventType, v.event, v.told)
}

func (s *statusController[T, L]) forget(k kube.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.told, k)
	delete(s.found, k)
}

// begin begins a leadership, before anything is written. Another replica may have recorded Events since this one led, and the objects
// that are there now were found.
func (s *statusController[T, L]) begin() {
	objects := s.objects.All()
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.told)
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
