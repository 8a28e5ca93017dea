package fair

import (
	"context"
	"time"
)

// Sleep waits for what a Share or a back-off asks for. It returns nil when that has passed, at once if it is not positive, and the error
// of ctx when ctx ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
