package alerts

import (
	"strings"
	"time"

	"notifier/internal/event"
)

// MaxRecent is how many outcomes of an object are kept.
const MaxRecent = 10

// maxReason bounds the kept part of an event's reason, in bytes: it is outside input.
const maxReason = 128

// Standing is the state of an Alert or a Provider beyond its spec. Nothing in it is secret.
type Standing struct {
	// UID is the object's, so that the state of a deleted object is not shown on its successor. Pending and Dead are by name.
	UID    string
	Health Health
	Loss   Loss
	// Matched is when an Alert last selected an event, up to matchedStep old.
	Matched time.Time
	// Since is when the worker began to count. Delivered counts the deliveries that were accepted since, and Failed those that were given
	// up.
	Since             time.Time
	Delivered, Failed int64
	// LastDelivery is the last delivery that was accepted. LastFailure is the last failed attempt or given-up delivery, and Failure is its
	// reason. Their Time is zero for none.
	LastDelivery, LastFailure Outcome
	Failure                   string
	// NextTry is when the delivery of LastFailure is tried again, zero if it is not.
	NextTry time.Time
	// Recent are the last outcomes since Since, the oldest first.
	Recent []Outcome
	// Counted says that Pending and Dead are known: the numbers of waiting deliveries and of dead letters.
	Counted       bool
	Pending, Dead int
}

// Outcome is the result of one attempt, or of giving up a delivery.
type Outcome struct {
	Time time.Time
	// Kind and Name are those of the event's object. Reason is the event's.
	Kind, Name, Reason string
	// Result is one of the words under which outcomes are counted. Class is the cause of a failure, from a small closed set.
	Result, Class string
	// Attempts counts the tries of the delivery so far, and Status is the HTTP status of the last one's answer, 0 for none.
	Attempts, Status int32
}

// Loss summarizes the given-up deliveries of an Alert or to a Provider. Nothing in it is secret.
type Loss struct {
	// Count is how many were given up since this process began to count. It is zero when the last is longer ago than lossesShown.
	Count int
	// At, Object and Reason are those of the last one. At is zero when there was none.
	At             time.Time
	Object, Reason string
}

// lossesShown is how long losses are shown after the last of them.
const lossesShown = time.Hour

// recent returns l, with no Count when the last one is no longer shown.
func (l Loss) recent(now time.Time) Loss {
	if now.Sub(l.At) >= lossesShown {
		l.Count = 0
	}
	return l
}

// outcomeOf returns the outcome of a delivery by its verdict.
func outcomeOf(d *event.Delivery, v verdict, now time.Time) Outcome {
	o := Outcome{
		Time: now, Kind: d.Event.InvolvedObject.Kind, Name: d.Event.InvolvedObject.Name, Reason: d.Event.Reason, Result: v.outcome,
		Attempts: int32(min(d.Attempts, 1<<30)),
	}
	if len(o.Reason) > maxReason {
		o.Reason = strings.Clone(event.Truncate(o.Reason, maxReason, "…")) // a substring would keep all of it in memory
	}
	if v.outcome != outcomeSent {
		o.Class = v.label
		if n := len(d.Tries); n > 0 {
			o.Status = int32(d.Tries[n-1].Status)
		}
	}
	return o
}

// add records an outcome, with the reason of a failure. NextTry is zero then.
func (s *Standing) add(o Outcome, failure string) {
	switch o.Result {
	case outcomeSent:
		s.Delivered++
		s.LastDelivery = o
	case outcomeDead:
		s.Failed++
		fallthrough
	default:
		s.LastFailure, s.Failure, s.NextTry = o, failure, time.Time{}
	}
	if len(s.Recent) == MaxRecent {
		s.Recent = append(s.Recent[:0], s.Recent[1:]...)
	}
	s.Recent = append(s.Recent, o)
}
