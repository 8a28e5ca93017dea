package watch

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"notifier/internal/event"
	"notifier/internal/reconcile/kube"
)

// maxWord bounds a revision or a reason in bytes: the last published states of all objects are kept in one bounded bucket.
const maxWord = 1024

// maxMessage is the greatest length of an event's message in bytes, as in Flux's event API.
const maxMessage = 39000

// object is the cached part of a Flux object: the outcome of its last reconciliation, and the metadata that is used. It is immutable once it
// is cached.
type object struct {
	objectMeta
	kind       *Kind
	apiVersion string
	ready      condition
	// reconciling reports that the controller is still at work, for any status of Ready.
	reconciling bool
	// listed reports that the object came in a list, and not in a watch as soon as it changed.
	listed bool
	// observed is status.observedGeneration, zero when there is none.
	observed int64
	revision string
	// faults are the beginnings of the messages of the other conditions that are False. When a rollback of a HelmRelease has failed, its
	// Ready names the rollback, and another condition the failure before it.
	faults []string
}

// maxFaults bounds faults.
const maxFaults = 4

// condition is the object's Ready condition, with the zero value for none.
type condition struct {
	status   string
	reason   string
	message  string
	since    second
	observed int64
}

// state is the terminal state of an object. Nothing distinguishes two objects in one state.
type state struct {
	UID      string        `json:"uid"`
	Outcome  event.Outcome `json:"outcome"`
	Revision string        `json:"revision,omitempty"`
}

// newObject converts a document to its cached form.
func newObject(kind *Kind, d *document) *object {
	o := &object{
		objectMeta: d.Metadata.kept(),
		kind:       kind, apiVersion: d.APIVersion, observed: d.Status.ObservedGeneration,
	}
	var repaired, cause *statusCondition
	for i := range d.Status.Conditions {
		c := &d.Status.Conditions[i]
		isTrue, isFalse := c.Status == string(metav1.ConditionTrue), c.Status == string(metav1.ConditionFalse)
		switch {
		case c.Type == "Ready":
			o.ready = newCondition(c)
		case c.Type == "Reconciling":
			o.reconciling = isTrue
		case c.Type == "Remediated" && isTrue:
			repaired = c
		case isFalse && len(o.faults) < maxFaults:
			o.faults = append(o.faults, event.Truncate(c.Message, event.MessageStart, ""))
			cause = cmp.Or(cause, c)
		}
	}
	if repaired != nil && repaired.Reason == o.ready.reason && cause != nil && !event.Unsettled(cause.Reason) {
		// Ready only says that a failed HelmRelease was repaired.
		told := newCondition(cause)
		o.ready.reason, o.ready.message = told.reason, told.message
	}
	o.revision = event.Truncate(kind.revisionOf(&d.Status, o.ready.status == string(metav1.ConditionFalse)), maxWord, "")
	return o
}

func newCondition(c *statusCondition) condition {
	return condition{
		status:   c.Status,
		reason:   event.Truncate(c.Reason, maxWord, ""),
		message:  event.Truncate(c.Message, maxMessage, ""),
		since:    c.LastTransitionTime,
		observed: c.ObservedGeneration,
	}
}

// share replaces values that other objects probably have too by one shared copy.
func (o *object) share() {
	for _, text := range [...]*string{&o.apiVersion, &o.revision, &o.ready.status, &o.ready.reason, &o.ready.message} {
		kube.Share(text)
	}
	o.Labels = kube.ShareLabels(o.Labels)
}

// GetObjectKind implements runtime.Object, which an informer requires. Nothing reads an object's kind from it.
func (o *object) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns the object itself, which is immutable.
func (o *object) DeepCopyObject() runtime.Object { return o }

// terminal returns the state in which the object's last reconciliation ended. It reports false during a reconciliation, for a status
// about an older generation, and for an object that is being deleted.
func (o *object) terminal() (state, bool) {
	s := state{UID: o.UID, Revision: o.revision}
	switch metav1.ConditionStatus(o.ready.status) {
	case metav1.ConditionTrue:
		s.Outcome = event.OutcomeSucceeded
	case metav1.ConditionFalse:
		s.Outcome = event.OutcomeFailed
	default:
		return state{}, false
	}
	switch {
	case o.Deleted != 0, event.Waits(o.kind.Kind, o.ready.reason), o.outdated():
		return state{}, false
	case s.Outcome == event.OutcomeFailed && o.awaitsSource():
		return state{}, false
	}
	return s, true
}

// notFound ends the API server's message that an object does not exist.
const notFound = "\" not found"

// awaitsSource reports whether the object failed only for lack of its source, which is not terminal: it continues by itself once the
// source is there, and a failure of the source is published about the source. A Kustomization that really failed under the same reason
// is retried, and shows that by Reconciling, a HelmRelease by its message. If the source does not exist nothing else publishes the failure.
func (o *object) awaitsSource() bool {
	failed := strings.HasSuffix(o.ready.message, notFound) || o.reconciling && o.kind.awaitsIdle ||
		o.kind.failing != "" && strings.HasPrefix(o.ready.message, o.kind.failing)
	return slices.Contains(o.kind.awaits, o.ready.reason) && !failed
}

// noLabels are the labels of an object without labels. nil means that the object is not known.
var noLabels = map[string]string{}

// known returns the facts with which events about the object are compared.
func (o *object) known() event.Object {
	k := event.Object{UID: o.UID, Labels: o.Labels, Version: o.ResourceVersion}
	if k.Labels == nil {
		k.Labels = noLabels
	}
	if st, terminal := o.terminal(); terminal && !o.reconciling {
		k.Outcome = st.Outcome
	}
	return k
}

// says reports whether the message of a failure event repeats a message in the object's conditions. Controllers write one text into
// both; some append to it in the event.
func (o *object) says(message string) bool {
	own := strings.TrimPrefix(o.ready.message, o.kind.failing)
	return begins(message, o.ready.message) || begins(message, own) || slices.ContainsFunc(o.faults, func(fault string) bool {
		return fault != "" && begins(message, fault)
	})
}

// begins reports whether a message begins with a condition's message, up to the length that is compared.
func begins(message, shown string) bool {
	if shown == "" {
		return message == ""
	}
	return strings.HasPrefix(message, shown[:min(len(shown), event.MessageStart)])
}

// outdated reports whether the Ready condition is about an older generation of the object. The whole status decides if the condition
// has no generation. A status without either counts as current.
func (o *object) outdated() bool {
	if o.ready.observed != 0 {
		return o.ready.observed < o.Generation
	}
	return o.observed != 0 && o.observed < o.Generation
}
