package replay

import (
	"context"
	"sync"
	"time"
)

// clock is the time of a play. Recordings and kills keep to it. It is stopped while a slow machine starts notifier, so that each recorded
// state is there to be seen for as long as on a fast one.
type clock struct {
	mu      sync.Mutex
	began   time.Time
	lost    time.Duration // stopped for so long in all
	stopped time.Time     // zero while the clock runs
	changed chan struct{} // closed and replaced when the clock stops or goes on
}

// newClock returns a clock that is stopped at zero.
func newClock() *clock {
	now := time.Now()
	return &clock{began: now, stopped: now, changed: make(chan struct{})}
}

// now returns the time since the start of the play.
func (c *clock) now() time.Duration {
	now, _, _ := c.read()
	return now
}

func (c *clock) read() (now time.Duration, running bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.stopped
	if at.IsZero() {
		at = time.Now()
	}
	return at.Sub(c.began) - c.lost, c.stopped.IsZero(), c.changed
}

// wait returns at a time of the play, or with the error of ctx.
func (c *clock) wait(ctx context.Context, until time.Duration) error {
	for {
		now, running, changed := c.read()
		if now >= until {
			return nil
		}
		var due <-chan time.Time
		if running {
			due = time.After(until - now)
		}
		select {
		case <-due:
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// atMost calls work and stops the clock when that takes longer than a time, until it returns.
func (c *clock) atMost(limit time.Duration, work func() error) error {
	done := make(chan error, 1)
	go func() { done <- work() }()
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
	}
	c.stop()
	defer c.start()
	return <-done
}

func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = time.Now()
	c.tell()
}

func (c *clock) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost += time.Since(c.stopped)
	c.stopped = time.Time{}
	c.tell()
}

// tell wakes all that wait. The caller holds the lock.
func (c *clock) tell() {
	close(c.changed)
	c.changed = make(chan struct{})
}
