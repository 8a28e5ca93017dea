package api

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"notifier/internal/event"
	"notifier/internal/event/view"
)

// Error is a refusal that is safe to show to the user. It quotes no token and reveals nothing about a namespace in which the user
// has no right.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Text names the fault and the remedy.
	Text string
	// RetryAfter is the time after which a retry may succeed, zero if it cannot.
	RetryAfter time.Duration
}

func (e *Error) Error() string { return e.Text }

// SetHeaders sets the headers of the answer to a request that is refused so.
func (e *Error) SetHeaders(header http.Header, r *http.Request) {
	if e.RetryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(int((e.RetryAfter+time.Second-1)/time.Second)))
	}
	if e.Status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", challenge(r))
	}
}

// challenge returns the value of WWW-Authenticate, as in RFC 6750, section 3: without an error for a request without a token.
func challenge(r *http.Request) string {
	if len(r.Header["Authorization"]) == 0 {
		return `Bearer realm="notifier"`
	}
	return `Bearer realm="notifier", error="invalid_token"`
}

// The refusals that do not depend on the request.
var (
	// ErrUnauthenticated says that a request has no token that the Kubernetes API accepts.
	ErrUnauthenticated = unauthenticated(makingToken("NAME"))
	// ErrUnavailable says that the Kubernetes API does not answer, so no user can be authenticated or authorized.
	ErrUnavailable = &Error{
		Status: http.StatusServiceUnavailable, RetryAfter: 2 * time.Second,
		Text: "the Kubernetes API does not say at the moment who you are and what you may; try again, and tell notifier's administrator if it lasts",
	}
	// ErrBusy says that a user or an address sends too many requests.
	ErrBusy = &Error{Status: http.StatusTooManyRequests, RetryAfter: time.Second, Text: "too many requests; wait a second and send fewer at a time"}
)

// The refusals of the Store and the Worker.
var (
	errNotFound = &Error{Status: http.StatusNotFound, Text: "there is nothing of that name or ID in the namespace, or it is not kept any more"}
	errCursor   = &Error{Status: http.StatusBadRequest, Text: "the cursor is not of this list; begin with the first page, without a cursor"}
	errNoWorker = &Error{
		Status: http.StatusServiceUnavailable, RetryAfter: 5 * time.Second, Text: "no replica is at work at the moment; try again in some seconds",
	}
	errStore = &Error{
		Status: http.StatusServiceUnavailable, RetryAfter: 2 * time.Second, Text: "what is kept cannot be read at the moment; try again",
	}
)

// unauthenticated returns ErrUnauthenticated with the command that makes a token.
func unauthenticated(command string) *Error {
	return &Error{Status: http.StatusUnauthorized, Text: "the token is missing, longer than 6 KiB, has expired or is none that the Kubernetes API " +
		"of this cluster accepts: sign in again, or make one by \"" + command + "\" of a service account, and send it as " +
		"\"Authorization: Bearer TOKEN\""}
}

// makingToken returns the command that makes a token of a service account.
func makingToken(account string) string { return "kubectl create token " + account }

// invalid returns the refusal of a request that cannot be understood.
func invalid(text string) *Error { return &Error{Status: http.StatusBadRequest, Text: text} }

// forbidden returns the refusal that names a missing right. It does not name the namespace, so it is the same for all.
func forbidden(r Right) *Error {
	return &Error{
		Status: http.StatusForbidden,
		Text: "you may not " + r.Verb + " " + r.name() + ".notification.toolkit.fluxcd.io in this namespace, or there is no such namespace; " +
			"its owner can bind you to a role that allows it, such as view or edit",
	}
}

// AsError returns the refusal that an error of a Service's method is shown as. It quotes only errors that are known to be safe.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*event.Error](err); ok { // its reason is for the tenant
		switch {
		case e.RetryAfter > 0:
			return &Error{Status: http.StatusTooManyRequests, Text: e.Reason, RetryAfter: e.RetryAfter}
		case e.Class == event.Permanent:
			return &Error{Status: http.StatusConflict, Text: e.Reason}
		}
		return &Error{Status: http.StatusServiceUnavailable, Text: e.Reason, RetryAfter: 2 * time.Second}
	}
	switch {
	case errors.Is(err, view.ErrNotFound):
		return errNotFound
	case errors.Is(err, view.ErrBadCursor):
		return errCursor
	case errors.Is(err, view.ErrNoWorker):
		return errNoWorker
	}
	return errStore
}
