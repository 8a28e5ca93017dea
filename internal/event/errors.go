package event

import (
	"errors"
	"fmt"
	"time"
)

// Class says what a failed send means for the delivery.
type Class int

const (
	// Retry means that the same send may succeed later.
	Retry Class = iota
	// Permanent means that the same send will fail again: the delivery goes to the dead letters at once.
	Permanent
)

// Error is a failed send, classified once where the fact is known. Its text is Reason alone: the cause may quote addresses,
// headers or answers and is reachable only by Unwrap, for matching, never for output.
type Error struct {
	Class Class
	// Reason is safe for the tenant, for logs and for a metric label: no address, no token, nothing of the answer's body.
	Reason string
	// Label is Reason's kind from a small closed set, for metrics ("timeout", "refused", "http_4xx", …).
	Label string
	// Status is the HTTP status of the destination's answer, 0 when there was none or it was not over HTTP.
	Status int
	// RetryAfter is how long the destination asked to wait, zero when it did not say.
	RetryAfter time.Duration
	cause      error
}

// NewError classifies cause. The cause is kept for errors.Is and errors.As but never printed. The Status of an Error within it is the new
// one's as well.
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

// AsError returns err as a classified error. What nobody classified is worth another try, and its text is not known to be
// safe, so only its type is shown.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return NewError(Retry, "other", fmt.Sprintf("send failed (%T)", err), err)
}
