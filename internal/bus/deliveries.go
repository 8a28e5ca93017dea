package bus

import (
	"context"
	"strconv"

	"github.com/nats-io/nats.go"

	"notifier/internal/event"
)

// maxUnackedDeliveries is how many deliveries of one shard the server hands out before any of them is acknowledged.
const maxUnackedDeliveries = 4096

// DeliveryShard returns the shard of the deliveries to a Provider.
func (b *Bus) DeliveryShard(namespace, provider string) int {
	return shardOf(b.opts.Shards, namespace, provider)
}

// Deliveries calls serve for every shard in each term of this replica as the worker, until ctx ends. It hands out the deliveries whose time
// on the schedule has come; all of one Provider are in one shard. Each carries Recheck, since a copy of it may be left from before a crash.
//
// The context of serve ends when the term ends. serve should then finish or drop the deliveries in hand and return soon:
// the lease is not released until it returns.
func (b *Bus) Deliveries(
	ctx context.Context, serve func(ctx context.Context, shard int, in <-chan event.Message[event.Delivery]) error,
) error {
	decode := func(m *nats.Msg) (event.Delivery, error) {
		d, err := decodeDelivery(m)
		d.Recheck = true
		return d, err
	}
	load := func(ctx context.Context, shard int, in <-chan event.Message[event.Delivery]) error {
		if err := b.history.load(ctx); err != nil {
			return err
		}
		return serve(ctx, shard, in)
	}
	consumeShards(ctx, b, deliverRole, stage[event.Delivery]{decode: decode, serve: load})
	return nil
}

func deliverRole(shard int) role {
	return role{
		name: roleDeliver + "-" + strconv.Itoa(shard), shard: shard, stream: streamDeliveries,
		filter: prefixDeliver + strconv.Itoa(shard) + "." + everythingElse, maxAckPending: maxUnackedDeliveries,
	}
}
