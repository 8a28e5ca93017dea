package fair_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/fair"
)

// Fails when Sleep returns early or late, outlives its context, or waits for a time that is not positive.
func TestSleepEndsWithTheTimeOrTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, c := range []struct {
			sleep, want time.Duration
			err         error
		}{
			{-time.Second, 0, nil},
			{0, 0, nil},
			{40 * time.Second, 40 * time.Second, nil},
			{40 * time.Second, 20 * time.Second, context.DeadlineExceeded},
		} {
			began := time.Now()
			if err := fair.Sleep(ctx, c.sleep); !errors.Is(err, c.err) || time.Since(began) != c.want {
				t.Errorf("Sleep(%v) returned %v after %v, want %v after %v", c.sleep, err, time.Since(began), c.err, c.want)
			}
		}
	})
}
