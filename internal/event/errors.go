package event

import (
	"errors"
	"fmt"
	"time"
)

// Class says whether a delivery is worth another attempt after a failed send.
type Class int

const (
	// Retry means that the same send may succeed later.
	Retry Class = iota
	// Permanent means that the same send will fail again: the delivery becomes a dead letter at once.
	Permanent
)

// Error is a failed send, classified once, where the cause is known. Its text is Reason alone. The cause may quote addresses,
// headers or answers; it is reachable only by Unwrap, for matching, and must never be printed.
type Error struct {
	Class Class
	// Reason is safe for the tenant, for logs and for a metric label: it has no address, no token and nothing of the answer's body.
	Reason string
	// Label is the kind of Reason from a small closed set, for metrics ("timeout", "refused", "http_4xx", …).
	Label string
	// Status is the HTTP status of the destination's answer, 0 if there was no answer or the send did not use HTTP.
	Status int
	// RetryAfter is the wait that the destination asked for, zero if it asked for none.
	RetryAfter time.Duration
	// Period is the wait that the destination's API names for its rate limit in its own way, zero if it names none.
	Period time.Duration
	cause  error
}

// NewError returns an Error with a class, a label, a reason and a cause. The cause is kept for errors.Is and errors.As and is never
// printed. If there is an Error within the cause, the new one has its Status.
func NewError(class Class, label, reason string, cause error) *Error {
	e := &Error{Class: class, Label: label, Reason: reason, cause: cause}
	if answered, ok := errors.AsType[*Error](cause); ok {
		e.Status = answered.Status
	}
	return e
}

func (e *Error) Error() string { return e.Reason }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// AsError returns err as a classified error. An unclassified error becomes a Retry, and only its type is shown, since its text may
// be unsafe.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return NewError(Retry, "other", fmt.Sprintf("send failed (%T)", err), err)
}
