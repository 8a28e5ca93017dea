package bus

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event"
	"notifier/internal/fair"
)

const (
	// triggerSize is the size of a trigger, in bytes, while the stream has none to take the average of.
	triggerSize = 512
	// countShare bounds the time in which one namespace's triggers are counted: a part of all time.
	countShare = 20
)

// triggerQuotas bound the triggers of one namespace in TRIGGERS, which refuses all when it is full: triggers that the API server refuses are tried for
// ten minutes, and a namespace with very many targets would have all others' webhooks refused (invariant T6). The bound holds while the
// stream is more than half full. Then a namespace may have a namespaceShare of the budget, and no more than is free. The server counts, since
// any replica publishes and another acknowledges.
type triggerQuotas struct {
	bus *Bus

	mu         sync.Mutex
	namespaces *simplelru.LRU[string, *triggerCount]
}

// triggerCount counts the triggers of one namespace.
type triggerCount struct {
	// recent counts the triggers published since the streams were asked whose state is known.
	recent int
	// pending are the subjects that the server listed, and those of the triggers published since. The server is asked again from the time of next
	// on, which is zero before the first time.
	pending  map[string]bool
	next     time.Time
	counting bool
	// meanwhile are the subjects of the triggers published while the server lists the others.
	meanwhile map[string]bool
}

func newTriggerQuotas(b *Bus) *triggerQuotas {
	return &triggerQuotas{bus: b, namespaces: fair.NewLRU[string, *triggerCount](maxQuotas)}
}

// take counts triggers that are about to be published. It returns event.ErrTooManyTriggers if a namespace has its quota already, unless all
// of its triggers replace others.
func (q *triggerQuotas) take(ctx context.Context, triggers []entry) error {
	for len(triggers) > 0 { // those of a webhook are all of one namespace
		n := 1
		for n < len(triggers) && triggers[n].namespace == triggers[0].namespace {
			n++
		}
		if err := q.takeOf(ctx, triggers[0].namespace, triggers[:n]); err != nil {
			return err
		}
		triggers = triggers[n:]
	}
	return nil
}

// takeOf is take for triggers of one namespace.
func (q *triggerQuotas) takeOf(ctx context.Context, namespace string, triggers []entry) error {
	state, _ := q.bus.stats.state(streamTriggers)
	budget, used, average := q.bus.opts.Budgets.Triggers, int64(state.Bytes), int64(triggerSize)
	if state.Msgs > 0 {
		average = max(used/int64(state.Msgs), 1)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.of(namespace)
	used += int64(c.recent) * average
	if used <= budget/2 {
		c.recent += len(triggers)
		c.pending, c.next = nil, time.Time{}
		return nil
	}
	q.count(ctx, namespace, c)
	fresh := 0
	for _, t := range triggers {
		if !c.pending[t.msg.Subject] {
			fresh++
		}
	}
	// While they are counted for the first time they are not known.
	full := !c.next.IsZero() && int64(len(c.pending)) >= max(minQuota, min(budget/namespaceShare, budget-used)/average)
	if full && fresh > 0 {
		return event.ErrTooManyTriggers
	}
	c.recent += fresh
	if c.pending == nil {
		c.pending = make(map[string]bool, len(triggers))
	}
	for _, t := range triggers {
		c.pending[t.msg.Subject] = true
		if c.counting {
			c.meanwhile[t.msg.Subject] = true
		}
	}
	return nil
}

// asked notes that the streams are about to be asked for their state. The caller calls answered once that is known: those that were published
// before are in it.
func (q *triggerQuotas) asked() (answered func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := map[*triggerCount]int{}
	for _, c := range q.namespaces.Values() {
		if c.recent > 0 {
			before[c] = c.recent
		}
	}
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		for c, n := range before {
			c.recent -= n
		}
	}
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

// count has the server list the pending triggers of a namespace, if that is due. If it does not answer, the former ones stay: the publish will
// be refused, or the stream's own bound holds. The caller has the lock, which is released meanwhile.
func (q *triggerQuotas) count(ctx context.Context, namespace string, c *triggerCount) {
	began := time.Now()
	if c.counting || began.Before(c.next) {
		return
	}
	c.counting, c.meanwhile = true, map[string]bool{}
	q.mu.Unlock()
	pending, err := q.bus.pendingSubjects(ctx, namespace)
	q.mu.Lock()
	c.counting, c.next = false, time.Now().Add(max(statsInterval, countShare*time.Since(began)))
	if err == nil {
		maps.Copy(pending, c.meanwhile) // the server may have listed the others before
		c.pending = pending
	}
	c.meanwhile = nil
}

// pendingSubjects returns the subjects of a namespace's triggers in the stream.
func (b *Bus) pendingSubjects(ctx context.Context, namespace string) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	filter := fmt.Sprintf("%s%d.%s.*", prefixTrigger, b.TriggerShard(namespace), token(namespace))
	info, err := b.streams[streamTriggers].Info(ctx, jetstream.WithSubjectFilter(filter))
	if err != nil {
		return nil, fmt.Errorf("count triggers: %w", err)
	}
	pending := make(map[string]bool, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		pending[subject] = true
	}
	return pending, nil
}
