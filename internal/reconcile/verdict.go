package reconcile

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "notifier/api/v1"
	"notifier/internal/event"
	"notifier/internal/reconcile/kube"
	"notifier/internal/reconcile/recorder"
	"notifier/internal/reconcile/secrets"
)

// fault is the reason why an object cannot be served. reason is a condition's. message is for the owner: it may quote the spec, never a
// Secret.
type fault struct {
	reason, message string
	// retried reports that something outside the object is missing. The object is reconciled again without a change of its own.
	retried bool
	// event is the reason of the Kubernetes Event, if Flux's differs from the condition's.
	event string
}

// invalidSpec returns the fault of a spec that cannot be served, beyondLimit that of one with too much.
func invalidSpec(format string, args ...any) *fault {
	return &fault{reason: v1.ValidationFailedReason, message: fmt.Sprintf(format, args...)}
}

func beyondLimit(format string, args ...any) *fault {
	return &fault{reason: v1.LimitExceededReason, message: fmt.Sprintf(format, args...)}
}

// verdict is the result of compiling an object. It is kept until the object is deleted, for writing the status.
type verdict struct {
	uid        types.UID
	generation int64
	ruling
}

// ruling is the part of a verdict that most objects of a kind have in common.
type ruling struct {
	// ready reports whether the object can be served, which includes a suspended one.
	ready bool
	// reason and message are those of the verdict's condition.
	reason, message string
	retried         bool
	// event and eventMessage are the reason and message of the Kubernetes Event, which unlike the condition must not show a webhook path.
	event, eventMessage string
	// requestedAt is the handled reconcile request.
	requestedAt string
	// path is a Receiver's webhook path.
	path string
	// lack is the fault of the parts of a served Receiver's spec that are not served, zero for none.
	lack fault
}

// served returns the verdict on an object that is in use.
func served(o metav1.Object, reason, message string) verdict {
	return newVerdict(o, ruling{ready: true, reason: reason, message: message, event: reason, eventMessage: message})
}

// refused returns the verdict on an object that is not in use because of f.
func refused(o metav1.Object, f fault) verdict {
	f.event = cmp.Or(f.event, f.reason)
	f.message = cut(f.message, recorder.MaxMessage)
	return newVerdict(o, ruling{reason: f.reason, message: f.message, retried: f.retried, event: f.event, eventMessage: f.message})
}

func newVerdict(o metav1.Object, r ruling) verdict {
	r.requestedAt = o.GetAnnotations()[v1.ReconcileRequestAnnotation]
	return verdict{o.GetUID(), o.GetGeneration(), r}
}

// condition returns the verdict as a condition of a type, True if holds.
func (v verdict) condition(conditionType string, holds bool) metav1.Condition {
	c := newCondition(conditionType, holds, v.reason, v.message)
	c.ObservedGeneration = v.generation
	return c
}

// newCondition returns a condition of a type, True if it holds.
func newCondition(conditionType string, holds bool, reason, message string) metav1.Condition {
	c := metav1.Condition{Type: conditionType, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	if holds {
		c.Status = metav1.ConditionTrue
	}
	return c
}

// serving reports whether the object is in use and not suspended.
func (v verdict) serving() bool { return v.ready && v.reason != v1.SuspendedReason }

// undecodable returns the fault of an object that its Go type cannot represent.
func undecodable() *fault {
	return invalidSpec("the object cannot be read: a value is outside what its field can hold, a duration that overflows for instance")
}

// unreadable returns the fault of an object whose Secret the API server fails to return.
func unreadable() fault {
	return fault{
		reason: v1.ProgressingWithRetryReason, retried: true, event: failedEvent,
		message: "a Secret that is named here cannot be read: the API server refuses or fails to return it",
	}
}

// unexpected returns the fault of an object whose compile ended in a panic, of which it tells nothing: its text may quote a Secret.
func unexpected() fault {
	return fault{
		reason:  v1.InternalErrorReason,
		message: "notifier has a fault that this object brings out: its administrator finds it in the log; it is tried again when the object changes",
	}
}

// unread reports that a Secret of the object could not be read. It is read again before the object is served.
func (v verdict) unread() bool { return v.reason == unreadable().reason }

// unfitSecret returns the fault of an object whose spec names a Secret in a field, nil if the Secret can be used.
func unfitSecret(s secrets.Secret, name, field string) *fault {
	switch {
	case s.Denied != "":
		return &fault{
			reason: v1.SecretDeniedReason, retried: true, event: v1.SecretDeniedReason,
			message: fmt.Sprintf("Secret %q, named by spec.%s, %s", name, field, s.Denied),
		}
	case s.TooLong != "":
		return &fault{
			reason: v1.InvalidConfigReason, retried: true,
			message: fmt.Sprintf("Secret %q, named by spec.%s, %s", name, field, s.TooLong),
		}
	}
	return nil
}

// failedEvent and validationEvent are the reasons of Flux's Events about Receivers.
const (
	failedEvent     = "Failed"
	validationEvent = "ValidationFailed"
)

// verdicts has the verdicts on one kind's objects.
type verdicts struct {
	// changed is called with the key of each changed verdict, and of each object that is forgotten.
	changed func(kube.Key)

	mu sync.RWMutex
	m  map[kube.Key]keptVerdict
}

// keptVerdict is a verdict whose ruling is stored once for all objects that have the same.
type keptVerdict struct {
	uid        types.UID
	generation int64
	ruling     unique.Handle[ruling]
}

func newVerdicts(changed func(kube.Key)) *verdicts {
	return &verdicts{changed: changed, m: map[kube.Key]keptVerdict{}}
}

func (s *verdicts) get(k kube.Key) (verdict, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	kept, ok := s.m[k]
	if !ok {
		return verdict{}, false
	}
	return verdict{kept.uid, kept.generation, kept.ruling.Value()}, true
}

// on returns the verdict on an object, false also if there is one on a former object of that name.
func (s *verdicts) on(o metav1.Object) (verdict, bool) {
	v, ok := s.get(kube.KeyOf(o))
	if !ok || v.uid != o.GetUID() {
		return verdict{}, false
	}
	return v, true
}

// replaced reports whether the verdict under an object's key is on a former object of that name.
func (s *verdicts) replaced(o metav1.Object) bool {
	v, ok := s.get(kube.KeyOf(o))
	return ok && v.uid != o.GetUID()
}

// put stores the verdict on an object.
func (s *verdicts) put(o metav1.Object, v verdict) {
	k, kept := kube.KeyOf(o), keptVerdict{v.uid, v.generation, unique.Make(v.ruling)}
	s.mu.Lock()
	before, ok := s.m[k]
	s.m[k] = kept
	s.mu.Unlock()
	if !ok || before != kept {
		s.changed(k)
	}
}

// remove forgets the verdict on an object.
func (s *verdicts) remove(k kube.Key) {
	s.mu.Lock()
	delete(s.m, k)
	s.mu.Unlock()
	s.changed(k)
}

// oneLine returns an error's text with "; " for line breaks, such as those of errors.Join.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// cut returns s truncated to limit bytes, with an ellipsis if it is longer.
func cut(s string, limit int) string { return event.Truncate(s, limit, "…") }
