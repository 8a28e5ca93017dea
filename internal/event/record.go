package event

import (
	"errors"
	"time"
)

// ErrOvertaken says that an event was not published because a newer event of its object had been published.
var ErrOvertaken = errors.New("a newer event of the object was published")

// Source says which of the two sources an event is from.
type Source string

// The two sources of events.
const (
	// SourcePost is the events endpoint that Flux controllers POST to.
	SourcePost Source = "post"
	// SourceWatch is the watchers, which derive events from the state of objects.
	SourceWatch Source = "watch"
)

// Outcome is the terminal state that an event reports, empty when it reports none.
type Outcome string

// The terminal outcomes of a reconciliation.
const (
	OutcomeNone      Outcome = ""
	OutcomeSucceeded Outcome = "succeeded"
	OutcomeFailed    Outcome = "failed"
)

// unsettled has the reasons under which a controller reports that it is still at work. A condition or an event with such a reason
// does not say how the work ended.
var unsettled = map[string]bool{
	"DependencyNotReady":   true,
	"Progressing":          true,
	"ProgressingWithRetry": true,
	"HealthCheckCanceled":  true,
}

// Unsettled reports whether reason says that a reconciliation is still under way.
func Unsettled(reason string) bool { return unsettled[reason] }

// Waits reports whether a failure of an object of the kind with the reason only says that a reconciliation is still under way. An ImagePolicy
// that has no tags to select from has failed: its controller POSTs an error then, and a success when it has them again.
func Waits(kind, reason string) bool {
	return Unsettled(reason) && (kind != "ImagePolicy" || reason != "DependencyNotReady")
}

// repairing has the reasons of a wait for something else, and of the steps by which helm-controller repairs a failed release, which is
// still failed after them.
var repairing = map[string]bool{"SourceNotReady": true, "RollbackSucceeded": true, "UninstallSucceeded": true, "DriftDetected": true}

// LeavesOpen reports whether an event with the reason that is no failure does not say that its object is well.
func LeavesOpen(reason string) bool { return unsettled[reason] || repairing[reason] }

// OutcomeOf derives the terminal outcome that an event reports from its severity and reason.
func OutcomeOf(e Event) Outcome {
	switch {
	case e.Severity == SeverityError && !Waits(e.InvolvedObject.Kind, e.Reason):
		return OutcomeFailed
	case e.Severity == SeverityError || e.Severity == SeverityTrace || LeavesOpen(e.Reason):
		return OutcomeNone
	default:
		return OutcomeSucceeded
	}
}

// Object is the entry of an object in the watchers' cache.
type Object struct {
	UID string
	// Labels are not nil.
	Labels map[string]string
	// Outcome is how the object's last reconciliation ended, OutcomeNone while one is under way.
	Outcome Outcome
	// Version differs after every change of the object.
	Version string
}

// Record is an event as it is on the bus, with the entry that the watchers' cache had of its object when the event was accepted.
type Record struct {
	// ID is the identity of the fact. Two records with one ID within the stream's duplicate window are one.
	ID    string
	Event Event
	// Source is the endpoint or the watcher that the event is from, Outcome the terminal state that it reports.
	Source  Source
	Outcome Outcome
	// Known says that kind, namespace, name and UID matched an object in the watchers' cache. Only then may the event count for
	// anything beyond being delivered (invariant E9).
	Known bool
	// Doubted says that nothing confirmed a POST about a known object when it was accepted. It contradicted the object's state and was
	// not the first to do so, or it was one of very many. It is delivered after events that are not doubted, within a share of its
	// own, and does not count as a published transition.
	Doubted bool
	// Labels are the object's labels, nil when the object was not found in the cache.
	Labels map[string]string
	// Accepted is the time at which the event was accepted.
	Accepted time.Time

	// Seq is the record's place in the stream, zero until it is published.
	Seq uint64
	// Recheck says that this record may have been handled before: it was redelivered, or was in the stream when its reader took over.
	Recheck bool
}
