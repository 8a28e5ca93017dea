package alerts

import (
	"slices"
	"strings"
	"time"

	"notifier/internal/event"
)

// MaxRecent is how many outcomes of an object are kept.
const MaxRecent = 10

// maxReason bounds what is kept of an event's reason, in bytes: it is outside input.
const maxReason = 128

// Standing is what this package knows of an Alert or a Provider beyond its spec. Nothing in it is secret.
type Standing struct {
	// UID is the object's, so that what is known of a deleted one is not shown on its successor. Pending and Dead are by name.
	UID    string
	Health Health
	Loss   Loss
	// Matched is when an Alert last selected an event, up to matchedStep old.
	Matched time.Time
	// Since is when the worker began to count Delivered and Failed: the deliveries that were accepted and those that were given up.
	Since             time.Time
	Delivered, Failed int64
	// LastDelivery is the last delivery that was accepted, LastFailure the last attempt that failed or delivery that was given up, and Failure
	// says why. Their Time is zero for none.
	LastDelivery, LastFailure Outcome
	Failure                   string
	// Recent are the last outcomes since Since, the oldest first.
	Recent []Outcome
	// Counted says that Pending and Dead are known: how many deliveries wait, and how many are dead letters.
	Counted       bool
	Pending, Dead int
}

// Outcome is what one attempt, or giving up a delivery, came to.
type Outcome struct {
	Time time.Time
	// Kind and Name are of the event's object, and Reason is the event's.
	Kind, Name, Reason string
	// Result is one of the words under which outcomes are counted, Class why it failed from a small closed set.
	Result, Class string
	// Attempts counts the tries of the delivery so far, and Status is the HTTP status of the last one's answer, 0 for none.
	Attempts, Status int32
}

// Loss is what is shown of the deliveries of an Alert or to a Provider that were given up. Nothing in it is secret.
type Loss struct {
	// Count is how many were given up since this process began to count, zero when the last is longer ago than lossesShown.
	Count int
	// At, Object and Reason are of the last one. At is zero when there was none.
	At             time.Time
	Object, Reason string
}

// lossesShown is how long after the last of them losses are shown.
const lossesShown = time.Hour

// outcomeOf is the outcome of a delivery with one of the words for it.
func outcomeOf(d *event.Delivery, result, class string, now time.Time) Outcome {
	o := Outcome{
		Time: now, Kind: d.Event.InvolvedObject.Kind, Name: d.Event.InvolvedObject.Name, Reason: d.Event.Reason, Result: result,
		Attempts: int32(min(d.Attempts, 1<<30)),
	}
	if len(o.Reason) > maxReason {
		o.Reason = strings.Clone(event.Truncate(o.Reason, maxReason, "…")) // or all of it would be kept
	}
	if result != outcomeSent {
		o.Class = class
	}
	if n := len(d.Tries); n > 0 && result != outcomeSent {
		o.Status = int32(d.Tries[n-1].Status)
	}
	return o
}

// add takes in an outcome.
func (s *Standing) add(o Outcome, failure string) {
	switch o.Result {
	case outcomeSent:
		s.Delivered++
		s.LastDelivery = o
	case outcomeDead:
		s.Failed++
		fallthrough
	default:
		s.LastFailure, s.Failure = o, failure
	}
	switch n := len(s.Recent); {
	case n >= MaxRecent:
		copy(s.Recent, s.Recent[1:])
		s.Recent[n-1] = o
	case n == cap(s.Recent):
		s.Recent = append(slices.Grow(s.Recent, min(max(1, n), MaxRecent-n)), o)
	default:
		s.Recent = append(s.Recent, o)
	}
}

// lose counts a delivery that was given up.
func (s *Standing) lose(object, reason string, now time.Time) {
	s.Loss = Loss{Count: s.Loss.Count + 1, At: now, Object: object, Reason: reason}
}

// renew begins anew for an object with another UID.
func (s *Standing) renew(uid string) {
	if s.UID != uid {
		*s = Standing{UID: uid, Pending: s.Pending, Dead: s.Dead}
	}
}
