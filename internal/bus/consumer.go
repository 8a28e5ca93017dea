package bus

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"notifier/internal/event"
)

const (
	// priorityGroup is the one group of each consumer. Its pinned-client policy is the fence: after a new owner has unpinned and
	// asked, the requests of an owner that does not know yet that it is none are refused.
	priorityGroup = "owner"
	pinnedTTL     = 15 * time.Second
	// pullBatch bounds what an owner has taken from the server and not yet handed out; pullBytes does so for large messages.
	pullBatch  = 256
	pullLow    = pullBatch / 2
	pullBytes  = 8 << 20
	pullExpiry = 5 * time.Second
	// While a request has nothing to give the server says every pullHeartbeat that it is there; after pullPatience without a word the
	// request must be taken for lost.
	pullHeartbeat = time.Second
	pullPatience  = 4 * time.Second
	pullRetry     = 250 * time.Millisecond
	keepInterval  = event.HoldTime / 3
)

// errFenced says that another replica took over.
var errFenced = errors.New("another replica owns the consumer")

// errInterrupted says that the connection, or the consumer's leader, was lost. What was on its way then never arrives, and the server
// would hold it for its owner until event.HoldTime is over: the role is taken over anew, so that it is handed out again at once and
// in order.
var errInterrupted = errors.New("server was lost for a moment")

// errStopped says that a stage stopped serving while it owned its role.
var errStopped = errors.New("stage stopped serving")

func consumerName(r role) string { return strings.ReplaceAll(r.name, ".", "-") }

func consumerConfig(r role) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable: consumerName(r), FilterSubject: r.filter, AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverAllPolicy,
		AckWait: event.HoldTime, MaxDeliver: -1, MaxAckPending: r.maxAckPending, HeadersOnly: r.headersOnly,
		PriorityPolicy: jetstream.PriorityPolicyPinned, PriorityGroups: []string{priorityGroup}, PinnedTTL: pinnedTTL,
	}
}

// consume serves one tenure: a puller on one side, the stage on the other. The channel that serve is given is closed when the
// ownership ends, and its context is cancelled; the role stays taken until serve returns, so that what it finishes in the
// meantime is not handed to anyone else. What it leaves unsettled comes back to the next owner.
func consume[T any](
	ctx context.Context, t *tenure, decode decoder[T], serve func(ctx context.Context, shard int, in <-chan event.Held[T]) error,
) error {
	p := newPuller(t, decode)
	g, inner := errgroup.WithContext(ctx)
	g.Go(func() error { return p.run(inner) })
	g.Go(func() error {
		err := serve(inner, t.role.shard, p.out)
		if err == nil && inner.Err() == nil {
			err = errStopped
		}
		return err
	})
	return g.Wait()
}

// consumeShards owns and serves every shard of one kind until ctx ends.
func consumeShards[T any](
	ctx context.Context, b *Bus, shard func(n int) role, decode decoder[T],
	serve func(ctx context.Context, shard int, in <-chan event.Held[T]) error,
) {
	b.offering(ctx, shard(0).kind, func() {
		var wg sync.WaitGroup
		for n := range b.opts.Shards {
			wg.Go(func() {
				b.own(ctx, shard(n), func(ctx context.Context, t *tenure) error { return consume(ctx, t, decode, serve) })
			})
		}
		wg.Wait()
	})
}
