package bus

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event"
)

const (
	// triggerSize is the size of a trigger, in bytes, while the stream has none to take the average of.
	triggerSize = 512
	// countShare bounds the time in which one namespace's triggers are counted: a part of all time.
	countShare = 20
)

// triggerQuotas bound what one namespace has in TRIGGERS, which refuses when it is full: triggers that the API server refuses are tried for
// ten minutes, and a namespace with very many targets would have all others' webhooks refused (invariant T6). The bound holds while the
// stream is more than half full. Then a namespace may have a namespaceShare of the budget, and no more than is free. The server counts, since
// any replica publishes and another acknowledges.
type triggerQuotas struct {
	bus *Bus

	mu         sync.Mutex
	namespaces *simplelru.LRU[string, *triggerCount]
}

// triggerCount counts the triggers of one namespace. What replaced another since counts as well.
type triggerCount struct {
	// recent are those that were published since the streams answered at the time of answered.
	recent   int
	answered time.Time
	// pending are those that the server counted, and since then those that were published. They are counted again from the time of next on,
	// which is zero before the first time.
	pending  int
	next     time.Time
	counting bool
}

func newTriggerQuotas(b *Bus) *triggerQuotas {
	lru, err := simplelru.NewLRU[string, *triggerCount](maxQuotas, nil)
	if err != nil {
		panic(err) // its only error is a size that is not positive
	}
	return &triggerQuotas{bus: b, namespaces: lru}
}

// take counts n triggers that a namespace is about to publish. It returns event.ErrTooManyTriggers if the namespace has its quota already.
func (q *triggerQuotas) take(ctx context.Context, namespace string, n int) error {
	state, answered := q.bus.stats.state(streamTriggers)
	budget, used, average := q.bus.opts.Budgets.Triggers, int64(state.Bytes), int64(triggerSize)
	if state.Msgs > 0 {
		average = max(used/int64(state.Msgs), 1)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.of(namespace)
	if !c.answered.Equal(answered) {
		c.recent, c.answered = 0, answered
	}
	used += int64(c.recent) * average
	c.recent += n
	if used <= budget/2 {
		c.pending, c.next = 0, time.Time{}
		return nil
	}
	q.count(ctx, namespace, c)
	// While they are counted for the first time they are not known.
	if counted := !c.next.IsZero(); counted && int64(c.pending) >= max(minQuota, min(budget/namespaceShare, budget-used)/average) {
		c.recent -= n
		return event.ErrTooManyTriggers
	}
	c.pending += n
	return nil
}

// of returns the count of a namespace.
func (q *triggerQuotas) of(namespace string) *triggerCount {
	c, known := q.namespaces.Get(namespace)
	if !known {
		c = &triggerCount{}
		q.namespaces.Add(namespace, c)
	}
	return c
}

// count has the server count the pending triggers of a namespace, if that is due. If the server does not answer, the former count stays:
// the publish will be refused, or the stream's own bound holds. The caller has the lock, which is released meanwhile.
func (q *triggerQuotas) count(ctx context.Context, namespace string, c *triggerCount) {
	began := time.Now()
	if c.counting || began.Before(c.next) {
		return
	}
	c.counting = true
	before := c.pending
	q.mu.Unlock()
	pending, err := q.bus.countTriggers(ctx, namespace)
	q.mu.Lock()
	c.counting, c.next = false, time.Now().Add(max(statsInterval, countShare*time.Since(began)))
	if err == nil {
		c.pending += pending - before // and not what was published meanwhile
	}
}

// countTriggers returns the number of a namespace's triggers in the stream, one for each subject.
func (b *Bus) countTriggers(ctx context.Context, namespace string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	filter := fmt.Sprintf("%s%d.%s.*", prefixTrigger, b.TriggerShard(namespace), token(namespace))
	info, err := b.streams[streamTriggers].Info(ctx, jetstream.WithSubjectFilter(filter))
	if err != nil {
		return 0, fmt.Errorf("count triggers: %w", err)
	}
	return len(info.State.Subjects), nil
}
