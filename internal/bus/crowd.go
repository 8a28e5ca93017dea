package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"notifier/internal/fair"
)

// Bounds on the records of EVENTS of one namespace that wait to be handled by the worker. Beyond them its publishers are refused. All
// namespaces together have eight times as many, and wait for each other beyond that.
const (
	crowdRecords = maxOpen / 8
	crowdBytes   = maxBufferedBytes / 8
	// crowdWait is how long a publisher waits before it is refused. A namespace whose records are handled as fast as others' is served.
	crowdWait = 250 * time.Millisecond
)

const (
	// subjectCrowd is the subject on which the worker tells the other replicas its crowd.
	subjectCrowd = "notifier.crowd"
	// crowdPause is the least time between two messages about the crowd, crowdInterval the time after which one is repeated, for a replica
	// that has missed it. After crowdLife without a message the crowd of the worker is forgotten: it may have ended.
	crowdPause    = 10 * time.Millisecond
	crowdInterval = time.Second
	crowdLife     = 3 * crowdInterval
)

// crowd has the namespaces of which too many records wait to be handled, so that one whose events come faster than they are routed delays
// only itself (invariant T6). The worker finds them and tells the other replicas.
type crowd struct {
	mu sync.Mutex
	// found are those that this process found as the worker, told those that another worker told.
	found, told map[string]struct{}
	forget      *time.Timer // forgets told
	// of has a channel for each of both, which is closed when the namespace leaves the crowd.
	of      map[string]chan struct{}
	changed chan struct{} // has a value when found has changed since it was last read
}

func newCrowd() *crowd {
	return &crowd{found: map[string]struct{}{}, of: map[string]chan struct{}{}, changed: make(chan struct{}, 1)}
}

// set adds a namespace to those found, or takes it away.
func (c *crowd) set(namespace string, crowded bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if crowded {
		c.found[namespace] = struct{}{}
	} else {
		delete(c.found, namespace)
	}
	c.update()
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// hear replaces the namespaces that were told, for crowdLife.
func (c *crowd) hear(namespaces []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = map[string]struct{}{}
	for _, n := range namespaces {
		c.told[n] = struct{}{}
	}
	c.update()
	if c.forget != nil {
		c.forget.Stop()
	}
	if len(namespaces) > 0 {
		c.forget = time.AfterFunc(crowdLife, func() { c.hear(nil) })
	}
}

// update brings of in step with found and told. The caller holds the lock.
func (c *crowd) update() {
	for _, crowded := range []map[string]struct{}{c.found, c.told} {
		for n := range crowded {
			if c.of[n] == nil {
				c.of[n] = make(chan struct{})
			}
		}
	}
	for n, left := range c.of {
		_, found := c.found[n]
		if _, told := c.told[n]; !found && !told {
			close(left)
			delete(c.of, n)
		}
	}
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

// names returns the namespaces that this process found.
func (c *crowd) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.found))
}

// crowdMessage is the body of a message about the crowd.
type crowdMessage struct {
	From       string   `json:"from"`
	Namespaces []string `json:"namespaces"`
}

// tellCrowd tells the other replicas the crowd until ctx ends: at each change, and every crowdInterval while it is not empty. A message that
// is lost is made up for by the next one.
func (b *Bus) tellCrowd(ctx context.Context) error {
	if b.embedded != nil {
		return nil // there are no others
	}
	tick := time.NewTicker(crowdInterval)
	defer tick.Stop()
	for empty := true; fair.Sleep(ctx, crowdPause) == nil; {
		select {
		case <-b.crowd.changed:
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		m := crowdMessage{From: b.lease.self, Namespaces: b.crowd.names()}
		if empty && len(m.Namespaces) == 0 {
			continue
		}
		empty = len(m.Namespaces) == 0
		body, err := json.Marshal(m)
		if err != nil {
			return fmt.Errorf("encode crowd: %w", err)
		}
		_ = b.nc.Publish(subjectCrowd, body)
	}
	return nil
}

// hearCrowd keeps the crowd that another replica, the worker, tells, until the connection is closed.
func (b *Bus) hearCrowd() error {
	if b.embedded != nil {
		return nil
	}
	_, err := b.nc.Subscribe(subjectCrowd, func(m *nats.Msg) {
		var told crowdMessage
		if json.Unmarshal(m.Data, &told) == nil && told.From != b.lease.self {
			b.crowd.hear(told.Namespaces)
		}
	})
	if err != nil {
		return fmt.Errorf("hear of crowded namespaces: %w", err)
	}
	return nil
}
