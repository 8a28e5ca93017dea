package bus

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"notifier/internal/event"
)

// Triggers calls serve for every shard that this replica owns, once for each ownership, until ctx ends. All triggers of one
// namespace are in one shard. A trigger that a newer one of the same target replaced is not handed out, unless it was already on
// its way, so serve sees most of a flood and keeps the newest.
//
// The context of serve ends and in is closed when the ownership ends. serve should then finish or drop what it holds and
// return soon: until it returns nobody else serves the shard.
func (b *Bus) Triggers(
	ctx context.Context, serve func(ctx context.Context, shard int, in <-chan event.Held[event.Trigger]) error,
) error {
	consumeShards(ctx, b, triggerRole, func(m *nats.Msg, _ uint64, _ bool) (event.Trigger, error) { return decodeTrigger(m) }, serve)
	return nil
}

// triggerRole has no bound on what is handed out: there is one message a target.
func triggerRole(shard int) role {
	return role{
		kind: kindTrigger, name: fmt.Sprintf("%s.%d", kindTrigger, shard), shard: shard,
		stream: streamTriggers, filter: fmt.Sprintf("%s%d.%s", prefixTrigger, shard, everythingElse), maxAckPending: -1,
	}
}
