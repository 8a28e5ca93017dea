package bus

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Bounds on the records of EVENTS of one namespace that wait to be handled by this process. Beyond them its publishers are refused. All
// namespaces together have eight times as many, and wait for each other beyond that.
const (
	crowdRecords = maxOpen / 8
	crowdBytes   = maxBufferedBytes / 8
	// crowdWait is how long a publisher waits before it is refused. A namespace whose records are handled as fast as others' is served.
	crowdWait = 250 * time.Millisecond
)

// crowd has the namespaces of which too many records wait to be handled. So a namespace whose events come faster than they are routed delays
// only itself (invariant T6). A replica that is not the worker does not know them.
type crowd struct {
	mu sync.Mutex
	// of has a channel for each, which is closed when the namespace leaves the crowd.
	of map[string]chan struct{}
}

func newCrowd() *crowd { return &crowd{of: map[string]chan struct{}{}} }

// set adds a namespace, or takes it away.
func (c *crowd) set(namespace string, crowded bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if crowded {
		c.of[namespace] = make(chan struct{})
		return
	}
	close(c.of[namespace])
	delete(c.of, namespace)
}

// await returns nil once the namespace is not in the crowd, or ErrFull after crowdWait, or the error of ctx.
func (c *crowd) await(ctx context.Context, namespace string) error {
	c.mu.Lock()
	left, crowded := c.of[namespace]
	c.mu.Unlock()
	if !crowded {
		return nil
	}
	timer := time.NewTimer(crowdWait)
	defer timer.Stop()
	select {
	case <-left:
		return nil
	case <-timer.C:
		return fmt.Errorf("%d events of the namespace, or %d MiB of them, wait to be routed: %w", crowdRecords, crowdBytes>>20, ErrFull)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
