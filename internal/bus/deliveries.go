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
	reasonQuota    = "the namespace has more deliveries waiting than its quota, and this Provider more than its share of them"
	reasonTooLarge = "delivery is larger than the bus carries"
)

func (b *Bus) shardOfDelivery(d *event.Delivery) int {
	return shardOf(b.opts.Shards, d.Namespace, d.Provider)
}

// PublishDeliveries writes deliveries to DELIVERIES and returns when every one of them is on disk, there or among the dead
// letters. After an error some may be: publishing them again does no harm, since their IDs are the same. It returns those that it
// made dead letters.
//
// A namespace beyond its wall of pending deliveries gets no more to the Providers that have more than their share; they become dead
// letters, and other Providers and namespaces are unaffected. As the stream's budget fills up the wall comes down with what is free,
// so that a few floods never fill it.
//
// They are encoded and written some megabytes at a time: each carries its whole event, and one event may have very many.
func (b *Bus) PublishDeliveries(ctx context.Context, ds []event.Delivery) (refused []event.Refused, err error) {
	w := deliveryWriter{bus: b}
	for i := range ds {
		d := &ds[i]
		m, err := encodeDelivery(deliverSubject(b.shardOfDelivery(d), d), d.ID, d)
		if err != nil {
			return nil, fmt.Errorf("publish delivery: %w", err)
		}
		if w.size+m.Size() > maxBatchBytes {
			if err := w.flush(ctx); err != nil {
				return nil, err // what follows must not overtake what failed
			}
		}
		ok, err := b.quota.admit(ctx, d.Namespace, d.Provider, int64(m.Size()), d.Known)
		if err != nil {
			return nil, fmt.Errorf("publish delivery: %w", err)
		}
		if !ok {
			w.dead = append(w.dead, event.Refused{Delivery: d, Label: event.LabelQuota, Reason: reasonQuota})
			w.size += m.Size()
			continue
		}
		w.msgs, w.kept, w.size = append(w.msgs, m), append(w.kept, d), w.size+m.Size()
	}
	err = w.flush(ctx)
	return w.refused, err
}

// deliveryWriter collects what is written together.
type deliveryWriter struct {
	bus  *Bus
	msgs []*nats.Msg
	kept []*event.Delivery // of msgs
	dead []event.Refused
	size int
	// refused are all that became dead letters.
	refused []event.Refused
}

// flush writes what was collected.
func (w *deliveryWriter) flush(ctx context.Context) error {
	if !event.Owned(ctx) {
		return errFenced // the new owner of the route has published them, perhaps longer ago than the stream knows duplicates
	}
	var errs []error
	for i, o := range w.bus.publishAll(ctx, streamDeliveries, w.msgs) {
		if errors.Is(o.err, ErrTooLarge) {
			w.dead = append(w.dead, event.Refused{Delivery: w.kept[i], Label: event.LabelTooLarge, Reason: reasonTooLarge})
			continue
		}
		errs = append(errs, o.err)
	}
	errs = append(errs, w.bus.deadLetters(ctx, w.dead))
	w.refused = append(w.refused, w.dead...)
	w.msgs, w.kept, w.dead, w.size = nil, nil, nil, 0
	return errors.Join(errs...)
}

// Deliveries calls serve for every shard in each term of this replica as the worker, until ctx ends. All deliveries of one
// Provider are in one shard, and come in the order they were published, but for those that come off the schedule.
//
// A delivery carries Recheck when it may have been sent before: it was handed out before, or stood in the stream when the
// term began, or comes off the schedule, where a copy of it may be left from before a crash.
//
// The context of serve ends and in is closed when the term ends. serve should then finish or drop what it holds and
// return soon: until it returns the lease is not released.
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
