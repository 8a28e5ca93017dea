package bus

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event"
)

// askFor publishes triggers for so many targets of a namespace, in the parts of webhooks for 100 targets, until one is refused. It returns
// the number of those that were stored, and the refusal.
func askFor(ctx context.Context, b *Bus, namespace string, targets int) (stored int, err error) {
	const webhook = 100
	for stored < targets && err == nil {
		triggers := make([]event.Trigger, min(webhook, targets-stored))
		for i := range triggers {
			triggers[i] = testTrigger(namespace, fmt.Sprint("target-", stored+i), 1)
		}
		if err = b.PublishTriggers(ctx, triggers...); err == nil {
			stored += len(triggers)
		}
	}
	return stored, err
}

// Invariant T6: triggers that are refused wait for ten minutes. A namespace with very many must not take the place of all others', whose
// webhooks would be answered 503. Fails when PublishTriggers does not ask the quota, or when a namespace is refused for another.
func TestT6ATriggersFloodLeavesRoomForOtherNamespaces(t *testing.T) {
	b := open(t, t.TempDir(), func(o *Options) { o.Budgets.Triggers, o.Shards = mib, 1 })
	ctx := testContext(t)
	stored, err := askFor(ctx, b, "flood", 10_000)
	if !errors.Is(err, event.ErrTooManyTriggers) {
		t.Errorf("after %d triggers: %v", stored, err)
	}
	if stored < 500 {
		t.Errorf("%d triggers of a namespace fill the stream", stored)
	}
	if stored, err := askFor(ctx, b, "other", minQuota); err != nil {
		t.Errorf("of another namespace's %d triggers %d are stored: %v", minQuota, stored, err)
	}
	if err := b.PublishTriggers(ctx, testTrigger("flood", "target-7", 2)); err != nil {
		t.Errorf("a trigger that replaces another: %v", err)
	}
	// Acknowledged triggers make room.
	held := make(chan event.Message[event.Trigger])
	start(t, func(ctx context.Context) error {
		return b.Triggers(ctx, func(ctx context.Context, in <-chan event.Message[event.Trigger]) error {
			return forward(ctx, in, held)
		})
	})
	for range stored + minQuota {
		must(t, receive(t, held).Ack(ctx))
	}
	for again := time.Duration(0); ; again += statsInterval {
		must(t, b.stats.refresh(ctx))
		if err := b.PublishTriggers(ctx, testTrigger("flood", "again", 2)); err == nil || again > testTimeout {
			must(t, err)
			break
		}
	}
}

// listing is a stream that calls then after each answer, before it returns that.
type listing struct {
	jetstream.Stream
	then func()
}

func (l listing) Info(ctx context.Context, opts ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	info, err := l.Stream.Info(ctx, opts...)
	l.then()
	return info, err
}

// T6. Fails when triggers that are published while the server lists those before are not counted: as many as come in that time would be above
// the quota.
func TestT6TriggersThatArePublishedDuringACountAreCounted(t *testing.T) {
	b := open(t, t.TempDir(), func(o *Options) { o.Budgets.Triggers, o.Shards = mib, 1 })
	ctx := testContext(t)
	const during = 600 // more than the quota
	var floods atomic.Bool
	// At once: the bus reads its streams' states every few seconds.
	b.streams[streamTriggers] = listing{b.streams[streamTriggers], func() {
		if !floods.CompareAndSwap(true, false) {
			return
		}
		if stored, err := askFor(ctx, b, "flood", during); err != nil {
			t.Errorf("during the first count %d triggers are stored: %v", stored, err)
		}
	}}
	for i := 0; ; i++ {
		must(t, b.stats.refresh(ctx))
		if state, _ := b.stats.state(streamTriggers); int64(state.Bytes) > mib/2 {
			break
		}
		_, err := askFor(ctx, b, fmt.Sprint("other-", i), 300)
		must(t, err)
	}
	floods.Store(true)
	err := b.PublishTriggers(ctx, testTrigger("flood", "first", 1))
	if !errors.Is(err, event.ErrTooManyTriggers) {
		t.Errorf("beside %d triggers that came during the count: %v", during, err)
	}
}

// T6. Fails when triggers that are published after the server has told what TRIGGERS has, and before the other streams have answered, are not
// counted: a namespace could then fill the half of the stream that is left to all.
func TestT6TriggersThatArePublishedWhileTheStreamsAnswerAreCounted(t *testing.T) {
	b := open(t, t.TempDir(), func(o *Options) { o.Budgets.Triggers, o.Shards = mib, 1 })
	ctx := testContext(t)
	must(t, b.PublishTriggers(ctx, testTrigger("flood", "the first", 1)))
	answered := b.triggerQuotas.asked()
	before, at := b.stats.state(streamTriggers)
	stored, err := askFor(ctx, b, "flood", 10_000)
	if !errors.Is(err, event.ErrTooManyTriggers) {
		t.Errorf("after %d triggers: %v", stored, err)
	}
	b.stats.mu.Lock()
	b.stats.states[streamTriggers], b.stats.answered = before, at.Add(statsInterval)
	b.stats.mu.Unlock()
	answered()
	if err := b.PublishTriggers(ctx, testTrigger("flood", "one more", 1)); !errors.Is(err, event.ErrTooManyTriggers) {
		t.Errorf("beside %d triggers of its namespace another is answered %v", stored, err)
	}
	if stored, err := askFor(ctx, b, "other", minQuota); err != nil {
		t.Errorf("of another namespace's %d triggers %d are stored: %v", minQuota, stored, err)
	}
}
