package watch

import (
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"notifier/internal/event"
)

// maxWord bounds a revision or a reason in bytes: what was told of an object is kept, for all objects, in one bounded bucket.
const maxWord = 1024

// maxMessage is the greatest length of an event's message in bytes, as Flux's event API has it.
const maxMessage = 39000

// object is what the cache keeps of a Flux object: of its metadata only name, namespace, UID, versions, labels, annotations as far
// as keptAnnotations has them and the times of creation and deletion, and the outcome of its last reconciliation. It is never
// changed once it is cached.
type object struct {
	metav1.ObjectMeta
	kind       *Kind
	apiVersion string
	ready      condition
	// reconciling says that the controller is still at work, whatever Ready says.
	reconciling bool
	// observed is status.observedGeneration, zero when there is none.
	observed int64
	revision string
}

// condition is the object's Ready condition, with the zero value for none.
type condition struct {
	status   string
	reason   string
	message  string
	since    time.Time
	observed int64
}

// state is the terminal state of an object. Two objects in one state have nothing to tell each other apart.
type state struct {
	UID      string        `json:"uid"`
	Outcome  event.Outcome `json:"outcome"`
	Revision string        `json:"revision,omitempty"`
}

// trim returns the transform that replaces an object of kind by what the cache keeps of it. It never fails, because an informer
// whose transform fails stops at that object; and it leaves what it trimmed before as it is, because informers may call it twice.
func trim(kind *Kind) cache.TransformFunc {
	return func(in any) (out any, err error) {
		u, ok := in.(*unstructured.Unstructured)
		if !ok {
			return in, nil
		}
		defer func() { // one object that trips this code up must not end the process, for it is still there after a restart
			if recover() != nil {
				u.Object["status"] = nil
				out = newObject(kind, u)
			}
		}()
		return newObject(kind, u), nil
	}
}

func newObject(kind *Kind, u *unstructured.Unstructured) *object {
	o := &object{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         u.GetNamespace(),
			Name:              u.GetName(),
			UID:               u.GetUID(),
			ResourceVersion:   u.GetResourceVersion(),
			Generation:        u.GetGeneration(),
			CreationTimestamp: u.GetCreationTimestamp(),
			DeletionTimestamp: u.GetDeletionTimestamp(),
			Labels:            u.GetLabels(),
			Annotations:       keptAnnotations(u.GetAnnotations()),
		},
		kind:       kind,
		apiVersion: u.GetAPIVersion(),
	}
	status, _ := u.Object["status"].(map[string]any)
	o.observed = number(status, "observedGeneration")
	for _, c := range entries(status, "conditions") {
		fields, ok := c.(map[string]any)
		if !ok {
			continue
		}
		switch text(fields, "type") {
		case "Ready":
			o.ready = newCondition(fields)
		case "Reconciling":
			o.reconciling = text(fields, "status") == string(metav1.ConditionTrue)
		}
	}
	o.revision = truncate(kind.revision(status, o.ready.status == string(metav1.ConditionFalse)), maxWord)
	return o
}

func newCondition(fields map[string]any) condition {
	since, err := time.Parse(time.RFC3339, text(fields, "lastTransitionTime"))
	if err != nil {
		since = time.Time{}
	}
	return condition{
		status:   text(fields, "status"),
		reason:   truncate(text(fields, "reason"), maxWord),
		message:  truncate(text(fields, "message"), maxMessage),
		since:    since.UTC(),
		observed: number(fields, "observedGeneration"),
	}
}

// number returns the integer field of that name, zero when there is none.
func number(fields map[string]any, name string) int64 {
	n, _, err := unstructured.NestedInt64(fields, name)
	if err != nil {
		return 0
	}
	return n
}

// truncate cuts s to at most limit bytes, between characters. The copy keeps the rest of s from staying in memory.
func truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return strings.Clone(s[:limit])
}

// reasonArtifactFailed is the reason of a source that could not be stored or fetched; while the controller tries again it says
// nothing about the end.
const reasonArtifactFailed = "ArtifactFailed"

// terminal returns the state that the object's last reconciliation ended in. It reports false while one is under way, or when
// what the status says is about an older generation, and for an object that is being deleted.
func (o *object) terminal() (state, bool) {
	s := state{UID: string(o.UID), Revision: o.revision}
	switch metav1.ConditionStatus(o.ready.status) {
	case metav1.ConditionTrue:
		s.Outcome = event.OutcomeSucceeded
	case metav1.ConditionFalse:
		s.Outcome = event.OutcomeFailed
	default:
		return state{}, false
	}
	switch {
	case o.DeletionTimestamp != nil, event.Unsettled(o.ready.reason), o.outdated():
		return state{}, false
	case s.Outcome == event.OutcomeFailed && o.ready.reason == reasonArtifactFailed && o.reconciling:
		return state{}, false
	}
	return s, true
}

// outdated reports whether the Ready condition, or the whole status where the condition does not say, is about an older
// generation of the object. A status that does not say either is taken as current.
func (o *object) outdated() bool {
	if o.ready.observed != 0 {
		return o.ready.observed < o.Generation
	}
	return o.observed != 0 && o.observed < o.Generation
}
