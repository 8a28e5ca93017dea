package env

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// Eventually calls f until it returns nil or ctx ends; it then returns f's last error.
// The first calls come quickly after each other, later ones at most 100 ms apart.
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
		// A call that the end of ctx cut short says less than the one before it.
		if ctx.Err() == nil {
			last = err
		}
		pause = min(pause*2, 100*time.Millisecond)
		timer.Reset(pause)
	}
}

// FreePorts returns n ports of 127.0.0.1, different from each other, on which nobody
// listens. Use it only for programs that cannot listen on port 0.
func FreePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		// Held until all are chosen, so that none is chosen twice.
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
