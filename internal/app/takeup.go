package app

import (
	"context"
	"errors"
	"time"

	"notifier/internal/fair"
)

const (
	// takeUpWait bounds how long a start waits for the shards of deliveries. Git hosts send a webhook once, so a shard that cannot be served
	// must not keep webhooks out. takeUpLook is the pause between two looks.
	takeUpWait = time.Second
	takeUpLook = 10 * time.Millisecond
	// longTakeUp is how long the shards take to be served if many deliveries wait there.
	longTakeUp = 100 * time.Millisecond
)

// takeUp is the condition of a start with the embedded server that every shard of deliveries is served. To take the shards up the process
// lists the deliveries that wait there. For 100,000 of them that uses the processors for some tenths of a second, and leaves 100 MiB of
// garbage. To return that holds up whatever allocates, so it belongs to the start too: the events of all tenants would be late.
type takeUp struct {
	// compiled is closed when the start has come to the shards.
	compiled <-chan struct{}
	serves   func() bool
	// trim returns memory to the system.
	trim func()
	over chan struct{} // closed when the wait is over
}

// await ends the wait, once everything is compiled. It reports whether it returned memory.
func (t *takeUp) await(ctx context.Context) (trimmed bool) {
	defer close(t.over)
	began := time.Now()
	for !t.serves() && time.Since(began) < takeUpWait {
		if fair.Sleep(ctx, takeUpLook) != nil {
			return false
		}
	}
	if time.Since(began) < longTakeUp {
		return false
	}
	t.trim()
	return true
}

// test returns nil when the wait is over.
func (t *takeUp) test() error {
	select {
	case <-t.over:
		return nil
	default:
	}
	select {
	case <-t.compiled:
		return errors.New("still listing the deliveries that wait")
	default:
		return errors.New("deliveries are taken up when everything is compiled")
	}
}
