package app

import (
	"errors"
	"sync"
	"time"
)

// takeUpWait bounds how long a start waits for the shards of deliveries. Git hosts send a webhook once, so a shard that cannot be served
// must not keep webhooks out.
const takeUpWait = time.Second

// takeUp is the condition of a start with the embedded server that every shard of deliveries is served. To take the shards up the process
// lists the deliveries that wait there. For 100,000 of them that uses the processors for some tenths of a second, in which the events of all tenants
// would be late. Once true it stays true.
type takeUp struct {
	// compiled is closed when the start has come to the shards.
	compiled <-chan struct{}
	serves   func() bool

	mu    sync.Mutex
	until time.Time // when the wait ends or has ended, zero before everything is compiled
}

// test returns nil when the start need not wait, or no longer.
func (t *takeUp) test() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-t.compiled:
	default:
		return errors.New("deliveries are taken up when everything is compiled")
	}
	now := time.Now()
	if t.until.IsZero() {
		t.until = now.Add(takeUpWait)
	}
	if !t.serves() && now.Before(t.until) {
		return errors.New("still listing the deliveries that wait")
	}
	t.until = now
	return nil
}
