package watch

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"notifier/internal/event"
)

// maxWord bounds a revision or a reason in bytes: what was published of an object is kept, for all objects, in one bounded bucket.
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
	// faults begin the messages of the other conditions that are False: of a HelmRelease that was rolled back Ready tells of that, and
	// another condition why.
	faults []string
}

// maxFaults bounds faults.
const maxFaults = 4

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

// newObject returns a document in the form that the cache keeps.
func newObject(kind *Kind, d *document) *object {
	o := &object{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         d.Metadata.Namespace,
			Name:              d.Metadata.Name,
			UID:               d.Metadata.UID,
			ResourceVersion:   d.Metadata.ResourceVersion,
			Generation:        d.Metadata.Generation,
			CreationTimestamp: d.Metadata.CreationTimestamp,
			DeletionTimestamp: d.Metadata.DeletionTimestamp,
			Labels:            d.Metadata.Labels,
			Annotations:       keptAnnotations(d.Metadata.Annotations),
		},
		kind:       kind,
		apiVersion: d.APIVersion,
		observed:   d.Status.ObservedGeneration,
	}
	for i := range d.Status.Conditions {
		switch c := &d.Status.Conditions[i]; c.Type {
		case "Ready":
			o.ready = newCondition(c)
		case "Reconciling":
			o.reconciling = c.Status == string(metav1.ConditionTrue)
		default:
			if c.Status == string(metav1.ConditionFalse) && len(o.faults) < maxFaults {
				o.faults = append(o.faults, event.Truncate(c.Message, event.MessageStart, ""))
			}
		}
	}
	o.revision = event.Truncate(kind.revision(&d.Status, o.ready.status == string(metav1.ConditionFalse)), maxWord, "")
	return o
}

func newCondition(c *statusCondition) condition {
	since, err := time.Parse(time.RFC3339, c.LastTransitionTime)
	if err != nil {
		since = time.Time{}
	}
	return condition{
		status:   c.Status,
		reason:   event.Truncate(c.Reason, maxWord, ""),
		message:  event.Truncate(c.Message, maxMessage, ""),
		since:    since.UTC(),
		observed: c.ObservedGeneration,
	}
}

// share replaces what other objects are likely to have too by the one copy of it.
func (o *object) share(w *words) {
	o.Namespace, o.apiVersion, o.revision = w.one(o.Namespace), w.one(o.apiVersion), w.one(o.revision)
	o.ready.status, o.ready.reason, o.ready.message = w.one(o.ready.status), w.one(o.ready.reason), w.one(o.ready.message)
	o.Labels = w.set(o.Labels)
}

// GetObjectKind makes an object one of Kubernetes, which an informer asks for. Nothing reads its kind from it.
func (o *object) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns the object itself, which is never changed.
func (o *object) DeepCopyObject() runtime.Object { return o }

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
	case s.Outcome == event.OutcomeFailed && o.awaitsSource():
		return state{}, false
	}
	return s, true
}

// notFound ends the API server's message that an object does not exist.
const notFound = "\" not found"

// awaitsSource reports whether the object failed for want of its source alone, which is no end: it goes on by itself once the source is
// there, and if the source fails it is published of the source. A Kustomization that really failed under the same reason is tried again,
// and says so by Reconciling. Where the source does not exist nothing else publishes it.
func (o *object) awaitsSource() bool {
	if !slices.Contains(o.kind.awaits, o.ready.reason) || strings.HasSuffix(o.ready.message, notFound) {
		return false
	}
	return !o.reconciling || !o.kind.awaitsIdle
}

// noLabels are those of an object without labels; nil stands for an object that is not known.
var noLabels = map[string]string{}

// known is what events about the object are compared with.
func (o *object) known() event.Object {
	k := event.Object{UID: string(o.UID), Labels: o.Labels, Version: o.ResourceVersion}
	if k.Labels == nil {
		k.Labels = noLabels
	}
	if st, terminal := o.terminal(); terminal && !o.reconciling {
		k.Outcome = st.Outcome
	}
	return k
}

// says reports whether the message of an event that says how the object's reconciliation failed is what the object says of that.
// Controllers write one text into both; some add to it in the event.
func (o *object) says(message string) bool {
	return begins(message, o.ready.message) || slices.ContainsFunc(o.faults, func(fault string) bool {
		return fault != "" && begins(message, fault)
	})
}

// begins reports whether a message begins with what a condition says, as far as messages are published.
func begins(message, shown string) bool {
	if shown == "" {
		return message == ""
	}
	return strings.HasPrefix(message, shown[:min(len(shown), event.MessageStart)])
}

// outdated reports whether the Ready condition, or the whole status where the condition does not say, is about an older
// generation of the object. A status that does not say either is taken as current.
func (o *object) outdated() bool {
	if o.ready.observed != 0 {
		return o.ready.observed < o.Generation
	}
	return o.observed != 0 && o.observed < o.Generation
}
