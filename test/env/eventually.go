package env

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Eventually calls f until it returns nil or ctx ends; it then returns f's last error. The first calls follow each other
// quickly, later ones at most 100 ms apart.
func Eventually(ctx context.Context, f func(ctx context.Context) error) error {
	pause := 2 * time.Millisecond
	timer := time.NewTimer(0)
	defer timer.Stop()
	last := errors.New("never tried")
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w, last: %w", context.Cause(ctx), last)
		case <-timer.C:
		}
		err := f(ctx)
		if err == nil {
			return nil
		}
		// The error of a call that the end of ctx cut short is less useful than the error before it.
		if ctx.Err() == nil {
			last = err
		}
		pause = min(pause*2, 100*time.Millisecond)
		timer.Reset(pause)
	}
}
