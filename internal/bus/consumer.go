package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"notifier/internal/bus/lease"
	"notifier/internal/event"
	"notifier/internal/fair"
)

const (
	// priorityGroup is the one group of each consumer. Its pinned-client policy is the fence: after a new worker has unpinned and asked, the
	// server refuses the requests of a worker whose term has ended unnoticed.
	priorityGroup = "owner"
	pinnedTTL     = 15 * time.Second
	// pullBatch bounds the messages that the worker has taken from the server and not yet handed out; pullBytes bounds large messages.
	pullBatch = 256
	pullLow   = pullBatch / 2
	pullBytes = 8 << 20
	// pullExtra is more than the bytes that the server counts of a message beside those that its maximal payload bounds: the subject, the
	// subject of the acknowledgement, and the headers of a schedule, which have the subject once more.
	pullExtra  = 16 << 10
	pullExpiry = 5 * time.Second
	// While the server has no message for a request it sends a heartbeat every pullHeartbeat. After pullTimeout without an answer the request
	// counts as lost.
	pullHeartbeat = time.Second
	pullTimeout   = 4 * time.Second
	pullRetry     = 250 * time.Millisecond
	keepInterval  = event.AckWait / 3

	takeOverRetry   = 250 * time.Millisecond
	takeOverBackoff = time.Second
	// takeOvers is how many consumers are taken over at a time. Each costs a server that syncs every write some six syncs, and blocks the
	// connection meanwhile. With all at once, on a disk that takes 30 ms for one, each takeover would exceed its time, again and again, and the
	// lease would lapse behind them.
	takeOvers = 4
)

// The names of roles, for each shard with its number behind it.
const (
	roleRoute   = "route"
	roleDeliver = "deliver"
	roleTrigger = "trigger"
	// roleSubscribe reads EVENTS for Receivers of type event.
	roleSubscribe = "subscribe"
)

// maxPullBytes returns how many bytes a reader requests at a time. Any message that the server has fits: it would never be sent otherwise, nor
// would those behind it.
func (b *Bus) maxPullBytes() int { return max(pullBytes, int(b.nc.MaxPayload())+pullExtra) }

// errFenced says that another replica took over.
var errFenced = errors.New("another replica has taken the consumer over")

// errInterrupted says that the connection, or the consumer's leader, was lost. Messages that were on their way then never arrive, and the
// server would keep them until event.AckWait is over. The consumer is taken over anew, so that they are handed out again at once and in
// order.
var errInterrupted = errors.New("server was lost for a moment")

// role describes the messages that one consumer reads.
type role struct {
	name          string // of the consumer
	shard         int
	stream        string
	filter        string
	maxAckPending int
}

// logged reports whether there is no consumer: EVENTS is read by a cursor.
func (r role) logged() bool { return r.stream == streamEvents }

// consumer is a role's consumer as the worker serves it, from one takeover to the next.
type consumer struct {
	bus  *Bus
	role role
	// last is the stream's last sequence at the takeover: messages up to it may have been handled before.
	last    uint64
	crashes *crashes
	// cursor is the cursor of a logged role, nil for the others.
	cursor *cursor
	gauge  *gauge
}

func consumerConfig(r role) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable: r.name, FilterSubject: r.filter, AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverAllPolicy,
		AckWait: event.AckWait, MaxDeliver: -1, MaxAckPending: r.maxAckPending,
		PriorityPolicy: jetstream.PriorityPolicyPinned, PriorityGroups: []string{priorityGroup}, PinnedTTL: pinnedTTL,
	}
}

// serveOne works in the replica's terms until ctx ends: in each it takes the role's consumer over and calls serve, again when serve has
// ended before the term. The context of serve ends with the term, and carries its fence.
func (b *Bus) serveOne(ctx context.Context, r role, serve func(ctx context.Context, c *consumer) error) {
	_ = b.Work(ctx, func(ctx context.Context) error { // no error: serveTerm returns only when its context ends
		b.serveTerm(ctx, r, serve)
		return nil
	})
}

func (b *Bus) serveTerm(ctx context.Context, r role, serve func(ctx context.Context, c *consumer) error) {
	log := b.log.With("role", r.name)
	g := b.progress.start(r) // for all of the term: a consumer that is taken over again and again makes no progress by that
	defer g.stop()
	for ctx.Err() == nil {
		c, err := b.takeOver(ctx, r)
		if err != nil {
			if ctx.Err() == nil {
				b.notTaken.Do(func() { log.Warn("cannot take a consumer over, trying again", "error", err) })
			}
			_ = fair.Sleep(ctx, takeOverRetry)
			continue
		}
		log.Debug("consumer taken over") // there are some thirty, and as many lines at every start
		g.waiting(0)
		c.gauge = g
		err = cmp.Or(serve(ctx, c), lease.ErrStopped)
		if errors.Is(err, errInterrupted) {
			b.interrupted.Do(func() { log.Info("consumer is taken over anew", "reason", err) })
			continue
		}
		if ctx.Err() == nil {
			b.givenUp.Do(func() { log.Error("consumer was given up", "error", err) })
			_ = fair.Sleep(ctx, takeOverBackoff)
		}
	}
}

// takeOver makes the consumer hand out every unacknowledged message to this replica, at once and in order. Without it the messages that the
// last worker had in hand would be handed out only after event.AckWait, behind younger messages of the same object (invariant E4).
func (b *Bus) takeOver(ctx context.Context, r role) (*consumer, error) {
	turn, err := b.takeOvers.Acquire(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer turn.Release()
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	c := &consumer{bus: b, role: r, crashes: b.crashes}
	if r.logged() {
		c.cursor, c.last, err = b.openCursor(ctx, r)
		return c, err
	}
	s := b.streams[r.stream]
	if _, err := s.CreateOrUpdateConsumer(ctx, consumerConfig(r)); err != nil {
		return nil, fmt.Errorf("set up consumer: %w", err)
	}
	if !event.Owned(ctx) {
		return nil, errFenced
	}
	if err := s.UnpinConsumer(ctx, r.name, priorityGroup); err != nil {
		return nil, fmt.Errorf("unpin last worker: %w", err)
	}
	if _, err := s.ResetConsumer(ctx, r.name); err != nil {
		return nil, fmt.Errorf("reset consumer: %w", err)
	}
	info, err := s.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("read stream: %w", err)
	}
	c.last = info.State.LastSeq
	return c, nil
}

// cautious reports whether earlier workers died near this message, so that it must be handed out alone.
func (c *consumer) cautious(seq uint64) bool { return seq <= c.last && c.crashes.cautious(c.role.name) }

// stage is what serves the messages of one kind of consumer.
type stage[T any] struct {
	decode func(m *nats.Msg) (T, error)
	serve  func(ctx context.Context, shard int, in <-chan event.Message[T]) error
	// offer, if any, is called with each message before it is offered to serve, and may replace its Acker.
	offer func(from *nats.Msg, m *event.Message[T])
}

// consume serves a consumer that was taken over: it runs a puller and the stage. When the term or the puller ends, the context given to
// serve is cancelled, and by that alone the stage ends: it must not hide why the puller ended. The replica stays the worker until serve
// returns, so that messages it finishes in the meantime are not handed out elsewhere. Others are handed to the next worker.
func consume[T any](ctx context.Context, c *consumer, s stage[T]) error {
	in := make(chan event.Message[T])
	p := newPuller(c, s, in)
	g, inner := errgroup.WithContext(ctx)
	g.Go(func() error { return p.run(inner) })
	g.Go(func() error {
		err := s.serve(inner, c.role.shard, in)
		if err == nil && inner.Err() == nil {
			err = lease.ErrStopped
		}
		return err
	})
	return g.Wait()
}

// consumeShards serves every shard of one kind until ctx ends.
func consumeShards[T any](ctx context.Context, b *Bus, shard func(n int) role, s stage[T]) {
	var wg sync.WaitGroup
	for n := range b.opts.Shards {
		wg.Go(func() {
			b.serveOne(ctx, shard(n), func(ctx context.Context, c *consumer) error { return consume(ctx, c, s) })
		})
	}
	wg.Wait()
}
