package event

import (
	"errors"
	"time"
)

// ErrOvertaken says that an event was not published because a newer one of its object had been.
var ErrOvertaken = errors.New("a newer event of the object was published")

// Source tells which of the two ways into the bus an event took.
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

// unsettled are the reasons under which a controller reports that it is still at work, so that neither a condition nor an
// event that carries one says how the work ended.
var unsettled = map[string]bool{
	"DependencyNotReady":   true,
	"Progressing":          true,
	"ProgressingWithRetry": true,
	"HealthCheckCanceled":  true,
}

// Unsettled reports whether reason says that a reconciliation is still under way.
func Unsettled(reason string) bool { return unsettled[reason] }

// OutcomeOf derives the terminal outcome that an event reports from its severity and reason.
func OutcomeOf(e Event) Outcome {
	switch {
	case Unsettled(e.Reason) || e.Severity == SeverityTrace:
		return OutcomeNone
	case e.Severity == SeverityError:
		return OutcomeFailed
	default:
		return OutcomeSucceeded
	}
}

// Object is what the watchers' cache knows of an object.
type Object struct {
	UID string
	// Labels are not nil.
	Labels map[string]string
	// Outcome is how the object's last reconciliation ended, none while one is under way.
	Outcome Outcome
	// Version is another one after every change of the object.
	Version string
}

// Record is an event as it stands on the bus, with what the watchers' cache knew of its object at the door.
type Record struct {
	// ID is the identity of the fact. Two records with one ID within the stream's duplicate window are one.
	ID    string
	Event Event
	// Source is the door the event came through, Outcome the terminal state it reports.
	Source  Source
	Outcome Outcome
	// Known says that kind, namespace, name and UID matched an object in the watchers' cache. Only then may the event
	// count for anything beyond being delivered (invariant E9).
	Known bool
	// Doubted says of a POST about a known object that nothing bore it out at the door: it contradicted the object's state, and was not
	// the first to do so, or came beside very many. It is delivered after what is not doubted, within a share of its own, and does not
	// count as telling a transition.
	Doubted bool
	// Labels are the object's labels, nil when the object was not found in the cache.
	Labels map[string]string
	// Accepted is the time at the door.
	Accepted time.Time

	// Seq is the record's place in the stream; zero until it was published.
	Seq uint64
	// Recheck says that this record may have been handled before: it was redelivered, or stood in the stream when its
	// reader took over.
	Recheck bool
}
