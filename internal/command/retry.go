package command

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"notifier/internal/api/client"
)

const (
	// maxWaits bounds the retries of one request, longestWait the wait before each.
	maxWaits    = 10
	longestWait = time.Minute
	// silentWait is the longest wait without a note.
	silentWait = time.Second
)

// retried calls f, and again after each temporary refusal, at most maxWaits times. It waits for the API's Retry-After, at most
// longestWait, and notes each long wait. temporary reports whether a refusal may pass.
func retried[T any](ctx context.Context, s *session, temporary func(*client.Error) bool, f func() (T, error)) (T, error) {
	for waits := 0; ; waits++ {
		result, err := f()
		refusal, ok := errors.AsType[*client.Error](err)
		if !ok || refusal.RetryAfter <= 0 || !temporary(refusal) || waits == maxWaits {
			return result, err
		}
		wait := min(refusal.RetryAfter, longestWait)
		if wait > silentWait {
			fmt.Fprintf(s.notes, "Asking again in %s: %s\n", wait, plain(refusal.Error()))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return result, ctx.Err()
		}
	}
}

// maybeLater reports whether a request may be served later. A part of it may be done.
func maybeLater(e *client.Error) bool { return e.Temporary() }

// tooMany reports whether a request was refused because of earlier ones, so that no part of it was done.
func tooMany(e *client.Error) bool { return e.Status == http.StatusTooManyRequests }
