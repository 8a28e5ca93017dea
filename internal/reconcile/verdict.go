package reconcile

import (
	"strings"
	"sync"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "notifier/api/v1"
	"notifier/internal/reconcile/kube"
)

// fault is why an object cannot be served. Reason is a condition's, message is for the owner: it may quote the spec, never a Secret.
type fault struct {
	reason, message string
	// retried says that something outside the object is missing and is looked for without its change.
	retried bool
	// event is the reason of the Kubernetes Event, where Flux's differs from the condition's.
	event string
}

// lack is what of a spec is not served while the rest is. Its reason is that of a condition, empty for nothing.
type lack struct{ reason, message string }

// add notes more that is not served, under the first reason.
func (l *lack) add(reason, message string) {
	if l.reason == "" {
		l.reason, l.message = reason, message
		return
	}
	l.message = cut(l.message+"; "+message, maxEventMessage)
}

// verdict is what compiling an object came to. It is kept until the object is gone, for the status to be written from.
type verdict struct {
	uid        types.UID
	generation int64
	ruling
}

// ruling is what a verdict says. Most objects of a kind have the same.
type ruling struct {
	// ready is whether the object can be served; one that its owner suspended can.
	ready bool
	// reason and message are those of the condition that tells it.
	reason, message string
	retried         bool
	// event and eventMessage are the reason and message of the Kubernetes Event, which unlike the condition must not show a webhook path.
	event, eventMessage string
	// path is a Receiver's webhook path, requestedAt the reconcile request that was handled.
	path, requestedAt string
	// lack is what a Receiver that is served does not serve of its spec.
	lack lack
}

// served is the verdict on an object that is in use.
func served(o metav1.Object, reason, message string) verdict {
	return verdict{o.GetUID(), o.GetGeneration(), ruling{
		ready: true, reason: reason, message: message, event: reason, eventMessage: message,
	}}
}

// refused is the verdict on an object that is not.
func refused(o metav1.Object, f fault) verdict {
	if f.event == "" {
		f.event = f.reason
	}
	f.message = cut(f.message, maxEventMessage)
	return verdict{o.GetUID(), o.GetGeneration(), ruling{
		reason: f.reason, message: f.message, retried: f.retried, event: f.event, eventMessage: f.message,
	}}
}

// condition is one of a type that tells the verdict.
func (v verdict) condition(conditionType string, holds bool) metav1.Condition {
	c := metav1.Condition{
		Type: conditionType, Status: metav1.ConditionFalse, Reason: v.reason, Message: v.message, ObservedGeneration: v.generation,
	}
	if holds {
		c.Status = metav1.ConditionTrue
	}
	return c
}

// serving reports whether all that the object asks for is in use.
func (v verdict) serving() bool { return v.ready && v.reason != v1.SuspendedReason }

// undecodable is the fault of an object that the API server keeps and its Go type cannot hold.
func undecodable() *fault {
	return &fault{reason: v1.ValidationFailedReason, message: "the object cannot be read: a value is outside what its field can hold, " +
		"a duration that overflows for instance"}
}

// unreadable is the fault of an object whose Secret the API server does not give.
func unreadable() fault {
	return fault{
		reason: v1.ProgressingWithRetryReason, retried: true, event: failedEvent,
		message: "a Secret that is named here cannot be read: the API server refuses or fails to return it",
	}
}

// failedEvent and validationEvent are the reasons of Flux's Events about Receivers.
const (
	failedEvent     = "Failed"
	validationEvent = "ValidationFailed"
)

// verdicts holds those of one kind's objects.
type verdicts struct {
	mu sync.RWMutex
	m  map[kube.Key]keptVerdict
}

// keptVerdict is a verdict whose ruling is kept once for all objects that have the same.
type keptVerdict struct {
	uid        types.UID
	generation int64
	ruling     unique.Handle[ruling]
}

func newVerdicts() *verdicts { return &verdicts{m: map[kube.Key]keptVerdict{}} }

func (s *verdicts) get(k kube.Key) (verdict, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	kept, ok := s.m[k]
	if !ok {
		return verdict{}, false
	}
	return verdict{kept.uid, kept.generation, kept.ruling.Value()}, true
}

// put keeps a verdict and reports whether it differs from the one before.
func (s *verdicts) put(k kube.Key, v verdict) bool {
	kept := keptVerdict{v.uid, v.generation, unique.Make(v.ruling)}
	s.mu.Lock()
	defer s.mu.Unlock()
	before, ok := s.m[k]
	s.m[k] = kept
	return !ok || before != kept
}

// remove forgets a verdict.
func (s *verdicts) remove(k kube.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.m, k)
}

// oneLine joins the lines of errors.Join.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
