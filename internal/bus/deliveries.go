package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"

	"notifier/internal/event"
)

// maxHeldDeliveries is how many deliveries of one shard the server hands out before any of them is settled.
const maxHeldDeliveries = 4096

// headerScheduler is set by the server on a message that was on the schedule.
const headerScheduler = "Nats-Scheduler"

// Reasons and labels of dead letters that the bus itself decides.
const (
	labelQuota     = "quota"
	reasonQuota    = "namespace quota exceeded"
	labelTooLarge  = "too_large"
	reasonTooLarge = "delivery is larger than the bus carries"
)

func (b *Bus) shardOfDelivery(d *event.Delivery) int {
	return shardOf(b.opts.Shards, d.Namespace, d.Provider)
}

// PublishDeliveries writes deliveries to DELIVERIES and returns when every one of them is on disk, there or among the dead
// letters. After an error some may be: publishing them again does no harm, since their IDs are the same.
//
// A namespace beyond its quota of pending deliveries gets no more; they become dead letters, and other namespaces are
// unaffected. As the stream's budget fills up the quota shrinks with what is free, so that a few floods never fill it.
//
// They are encoded and written some megabytes at a time: each carries its whole event, and one event may have very many.
func (b *Bus) PublishDeliveries(ctx context.Context, ds []event.Delivery) error {
	var msgs []*nats.Msg
	var kept []*event.Delivery
	size := 0
	for i := range ds {
		d := &ds[i]
		m, err := encodeDelivery(deliverSubject(b.shardOfDelivery(d), d), d.ID, d)
		if err != nil {
			return fmt.Errorf("publish delivery: %w", err)
		}
		if size+m.Size() > maxBatchBytes {
			if err := b.writeDeliveries(ctx, msgs, kept); err != nil {
				return err // what follows must not overtake what failed
			}
			msgs, kept, size = nil, nil, 0
		}
		ok, err := b.quota.admit(ctx, d.Namespace, int64(m.Size()), d.Known)
		if err != nil {
			return fmt.Errorf("publish delivery: %w", err)
		}
		if !ok {
			if err := b.DeadLetter(ctx, d, labelQuota, reasonQuota); err != nil {
				return err
			}
			continue
		}
		msgs, kept, size = append(msgs, m), append(kept, d), size+m.Size()
	}
	return b.writeDeliveries(ctx, msgs, kept)
}

func (b *Bus) writeDeliveries(ctx context.Context, msgs []*nats.Msg, kept []*event.Delivery) error {
	var errs []error
	for i, o := range b.publishAll(ctx, streamDeliveries, msgs) {
		err := o.err
		if errors.Is(err, ErrTooLarge) {
			err = b.DeadLetter(ctx, kept[i], labelTooLarge, reasonTooLarge)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Deliveries calls serve for every shard that this replica owns, once for each ownership, until ctx ends. All deliveries of one
// Provider are in one shard, and come in the order they were published, but for those that come off the schedule.
//
// A delivery carries Recheck when it may have been sent before: it was handed out before, or stood in the stream when the
// ownership began, or comes off the schedule, where a copy of it may be left from before a crash.
//
// The context of serve ends and in is closed when the ownership ends. serve should then finish or drop what it holds and
// return soon: until it returns nobody else serves the shard.
func (b *Bus) Deliveries(
	ctx context.Context, serve func(ctx context.Context, shard int, in <-chan event.Held[event.Delivery]) error,
) error {
	decode := func(m *nats.Msg, _ uint64, recheck bool) (event.Delivery, error) {
		d, err := decodeDelivery(m)
		d.Recheck = d.Recheck || recheck || m.Header.Get(headerScheduler) != ""
		return d, err
	}
	consumeShards(ctx, b, deliverRole, decode, serve)
	return nil
}

func deliverRole(shard int) role {
	return role{
		kind: kindDeliver, name: kindDeliver + "." + strconv.Itoa(shard), shard: shard, stream: streamDeliveries,
		filter: prefixDeliver + strconv.Itoa(shard) + "." + everythingElse, maxAckPending: maxHeldDeliveries,
	}
}
