package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"notifier/internal/bus/lease"
	"notifier/internal/event"
)

func newTriggerCommitter(b *Bus) *committer {
	c := newCommitter(b, func(ctx context.Context, msgs []*nats.Msg) []outcome { return b.publishAll(ctx, streamTriggers, msgs) })
	c.coalesced = b.metrics.folded.Inc
	return c
}

// PublishTriggers writes each trigger to its target's place in TRIGGERS. It returns when the stream has confirmed for all of them that a
// trigger of this target, accepted no earlier, is on disk (invariant T3). Triggers of one target that wait for the disk together become one
// message, so one hot target costs one message a sync. A trigger whose like is on disk already and waits here for its turn costs nothing.
// The error wraps event.ErrTooManyTriggers if no more targets of a namespace are accepted now. After an error some may be on disk and others
// not. The triggers must not be changed, even after an error.
func (b *Bus) PublishTriggers(ctx context.Context, triggers ...event.Trigger) error {
	// Most triggers of a flood are covered, and a webhook may have hundreds: those allocate nothing.
	var entries []entry
	subject := make([]byte, 0, 128)
	for i := range triggers {
		t := &triggers[i]
		if t.Namespace == "" || t.Key == "" {
			return errors.New("publish trigger: no namespace or no key")
		}
		subject = appendTriggerSubject(subject[:0], b.TriggerShard(t.Namespace), t)
		if b.pendingTriggers.covers(subject, t.ReceiverUID) {
			b.metrics.folded.Inc()
			continue
		}
		e := entry{
			msg: newMsg(string(subject), nil), body: func() ([]byte, error) { return encodeJSON(t) }, namespace: t.Namespace, at: t.Accepted,
			stored: func(a jetstream.PubAck) { b.pendingTriggers.stored(a.Sequence) }, // triggers have no IDs, so there are no duplicates
		}
		e.coalesce = func(waiting *entry) bool { return newest(waiting, e) }
		entries = append(entries, e)
	}
	if err := b.triggerQuotas.take(ctx, entries); err != nil {
		return fmt.Errorf("publish trigger: %w", err)
	}
	if err := b.triggers.commitEach(ctx, entries); err != nil {
		return fmt.Errorf("publish trigger: %w", err)
	}
	return nil
}

// newest makes the trigger that was accepted last replace the other.
func newest(waiting *entry, e entry) bool {
	if e.at.After(waiting.at) {
		*waiting = e
	}
	return true
}

// Triggers calls serve in each term of this replica as the worker, until ctx ends. A trigger that a newer one of the same target replaced is
// not handed out, unless it was already on its way. So serve is handed most of a flood and keeps the newest. A trigger in hand may be handed
// out again within the term.
//
// The context of serve ends when the term ends. serve should then finish or drop the triggers in hand and return soon: the lease is not
// released until it returns.
func (b *Bus) Triggers(ctx context.Context, serve func(ctx context.Context, in <-chan event.Message[event.Trigger]) error) error {
	return b.Work(ctx, func(ctx context.Context) error {
		in := make(chan event.Message[event.Trigger])
		g, ctx := errgroup.WithContext(ctx)
		for n := range b.opts.Shards {
			g.Go(func() error {
				b.pullTriggers(ctx, n, in)
				return nil
			})
		}
		g.Go(func() error { return cmp.Or(serve(ctx, in), lease.ErrStopped) })
		return g.Wait()
	})
}

// pullTriggers hands out the triggers of one shard until ctx ends.
func (b *Bus) pullTriggers(ctx context.Context, shard int, in chan event.Message[event.Trigger]) {
	s := stage[event.Trigger]{decode: decodeTrigger}
	taken := false
	b.serveTerm(ctx, triggerRole(shard), func(ctx context.Context, c *consumer) error {
		defer b.pendingTriggers.drop(shard)
		// The messages that may be in hand since before an interruption. Their acks also end what is handed out again, as do those of messages
		// whose event.AckWait is over.
		inHand := uint64(0)
		if taken {
			inHand = c.last
		}
		taken = true
		if b.embedded != nil {
			s.offer = func(from *nats.Msg, m *event.Message[event.Trigger]) {
				if meta, err := from.Metadata(); err == nil && meta.NumDelivered == 1 && m.Seq > inHand {
					b.pendingTriggers.add(from.Subject, m)
				} else {
					b.pendingTriggers.remove(from.Subject)
				}
			}
		}
		return newPuller(c, s, in).run(ctx)
	})
}

// TriggerShard returns the shard of the triggers of a namespace.
func (b *Bus) TriggerShard(namespace string) int { return shardOf(b.opts.Shards, namespace) }

// triggerRole has no bound on the triggers that are handed out: there is one message a target.
func triggerRole(shard int) role {
	return role{
		name: fmt.Sprintf("%s-%d", roleTrigger, shard), shard: shard,
		stream: streamTriggers, filter: fmt.Sprintf("%s%d.%s", prefixTrigger, shard, everythingElse), maxAckPending: -1,
	}
}
