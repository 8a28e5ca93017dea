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
	// maxWaits is how often in a row the same is asked for again, and longestWait bounds the wait before each time.
	maxWaits    = 10
	longestWait = time.Minute
	// silentWait is the longest wait of which nothing is told.
	silentWait = time.Second
)

// retried calls f, and again after a refusal that passes, when the API says that it may be asked again. Each time that takes long is told.
func retried[T any](ctx context.Context, s *session, passes func(*client.Error) bool, f func() (T, error)) (T, error) {
	for waits := 0; ; waits++ {
		result, err := f()
		refusal, ok := errors.AsType[*client.Error](err)
		if !ok || refusal.RetryAfter <= 0 || !passes(refusal) || waits == maxWaits {
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

// tooMany reports whether a request was refused because of those before it, so that nothing of it was done.
func tooMany(e *client.Error) bool { return e.Status == http.StatusTooManyRequests }

// anyRefusal reports whether a request was refused because of the time at which it came. Some of it may have been done.
func anyRefusal(e *client.Error) bool { return tooMany(e) || e.Status == http.StatusServiceUnavailable }
