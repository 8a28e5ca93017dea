package fair

import (
	"context"
	"time"
)

// Sleep waits for d, such as the result of Share.Wait or a backoff. It returns nil after d, at once if d is not positive, and the
// error of ctx if ctx ends first.
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
