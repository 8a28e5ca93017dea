package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"

	"notifier/internal/event"
)

// PublishTrigger writes t to its target's place in TRIGGERS and returns when the stream has confirmed that a trigger of this
// target, accepted no earlier than t, is on disk (invariant T3).
func (b *Bus) PublishTrigger(ctx context.Context, t event.Trigger) error {
	return b.triggers.publish(ctx, t)
}

// committer is the group commit of TRIGGERS. While one round is on its way to the disk, the triggers that arrive gather in the
// next; those for one target become one message, stamped with the newest time of acceptance, and the round's messages go as one
// atomic batch that the server syncs once. So a caller waits for at most two syncs, one hot target costs one message a
// round, and a thousand targets share the fsync.
//
// A round is sealed before its first message is sent: nobody who calls later is acknowledged by it. Memory is bounded by the
// callers, who all wait.
type committer struct {
	bus   *Bus
	write func(ctx context.Context, msgs []*nats.Msg) []error

	mu     sync.Mutex
	rounds []*round // in the order they go out; the last one is open, what has been taken out is sealed
	busy   bool
}

// round is what one commit will carry.
type round struct {
	places  map[string]int // by subject
	targets []event.Trigger
	errs    []error
	done    chan struct{}
}

func newCommitter(b *Bus) *committer {
	c := &committer{bus: b}
	c.write = func(ctx context.Context, msgs []*nats.Msg) []error { return b.publishAll(ctx, streamTriggers, msgs) }
	return c
}

func (c *committer) publish(ctx context.Context, t event.Trigger) error {
	if t.Namespace == "" || t.Key == "" {
		return errors.New("trigger without namespace or key")
	}
	subject := triggerSubject(shardOf(c.bus.opts.Shards, t.Namespace), t)
	c.mu.Lock()
	r, place := c.enlist(subject, t)
	if !c.busy {
		c.busy = true
		// The rounds belong to all their callers, so none of the callers' contexts may end them; publish has its own time-out.
		c.bus.work.Go(func() { c.commitAll(context.WithoutCancel(ctx)) })
	}
	c.mu.Unlock()
	select {
	case <-r.done:
		return r.errs[place]
	case <-ctx.Done():
		return fmt.Errorf("publish trigger: %w", ctx.Err())
	}
}

// enlist adds t to the open round. A full round is followed by another one.
func (c *committer) enlist(subject string, t event.Trigger) (*round, int) {
	var r *round
	if n := len(c.rounds); n > 0 {
		r = c.rounds[n-1]
	}
	if r != nil {
		if place, found := r.places[subject]; found {
			if t.Accepted.After(r.targets[place].Accepted) {
				r.targets[place] = t
			}
			return r, place
		}
	}
	if r == nil || len(r.targets) == maxBatch {
		r = &round{places: map[string]int{}, done: make(chan struct{})}
		c.rounds = append(c.rounds, r)
	}
	r.places[subject] = len(r.targets)
	r.targets = append(r.targets, t)
	return r, len(r.targets) - 1
}

// commitAll commits rounds until none waits.
func (c *committer) commitAll(ctx context.Context) {
	for {
		c.mu.Lock()
		if len(c.rounds) == 0 {
			c.busy = false
			c.mu.Unlock()
			return
		}
		r := c.rounds[0]
		c.rounds = c.rounds[1:]
		c.mu.Unlock()
		r.errs = c.commit(ctx, r)
		close(r.done)
	}
}

func (c *committer) commit(ctx context.Context, r *round) []error {
	msgs := make([]*nats.Msg, len(r.targets))
	for i, t := range r.targets {
		body, err := encodeJSON(t)
		if err != nil { // strings, maps of strings and times always encode
			return fill(len(r.targets), fmt.Errorf("encode trigger: %w", err))
		}
		msgs[i] = newMsg(triggerSubject(shardOf(c.bus.opts.Shards, t.Namespace), t), body)
	}
	return c.write(ctx, msgs)
}

func fill(n int, err error) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}
