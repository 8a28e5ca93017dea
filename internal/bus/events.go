package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event"
)

// followRetry is the pause before following is taken up again.
const followRetry = time.Second

// PublishEvent writes r to EVENTS and returns when the stream has confirmed that it is on disk (invariant E2), and whether it
// was there already, by its ID, within the duplicate window. It sets r.Seq; of a duplicate that is the first one's.
//
// It refuses with ErrFull when the records that were not routed yet take most of the stream: publishing more would make the
// stream discard them.
func (b *Bus) PublishEvent(ctx context.Context, r *event.Record) (duplicate bool, err error) {
	return b.publishRecord(r, func(m *nats.Msg) (ack, error) {
		return b.events.commit(ctx, entry{msg: m, namespace: r.Event.InvolvedObject.Namespace})
	})
}

// PublishEventAfter is PublishEvent unless EVENTS has got an event of the object since the one at seq, zero for none at all: then it
// refuses with event.ErrOvertaken, also if that one is r itself, of an attempt whose answer was lost.
func (b *Bus) PublishEventAfter(ctx context.Context, r *event.Record, seq uint64) (duplicate bool, err error) {
	return b.publishRecord(r, func(m *nats.Msg) (ack, error) {
		m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(seq, 10))
		return b.publish(ctx, streamEvents, m)
	})
}

func (b *Bus) publishRecord(r *event.Record, commit func(*nats.Msg) (ack, error)) (duplicate bool, err error) {
	if err := r.Event.Validate(); err != nil {
		return false, fmt.Errorf("publish event: %w", err)
	}
	if err := b.stats.eventsHaveRoom(); err != nil {
		b.metrics.publishErrors.WithLabelValues(streamEvents).Inc()
		return false, err
	}
	m, err := encodeRecord(r)
	if err != nil {
		return false, fmt.Errorf("publish event: %w", err)
	}
	a, err := commit(m)
	if err != nil {
		return false, fmt.Errorf("publish event: %w", err)
	}
	b.stats.unrouted.Add(int64(m.Size()))
	r.Seq = a.Seq
	return a.Duplicate, nil
}

func routeRole() role {
	return role{
		kind: kindRoute, name: kindRoute, stream: streamEvents,
		filter: prefixEvents + everythingElse, maxAckPending: maxHeldRecords + 2*pullBatch,
	}
}

// Events calls route with the records of EVENTS, those of each namespace in stream order, while this replica is the worker, until ctx
// ends. After nil the batch is acknowledged; after an error the same batch is tried again, a little later each time up to five
// seconds, and is marked for a recheck. A message that is no event becomes a dead letter.
//
// Calls for different namespaces may be made at the same time: a record for which heavy is true, and what comes of its namespace while
// it is handled, is not waited for by other namespaces.
func (b *Bus) Events(
	ctx context.Context, heavy func(*event.Record) bool, route func(ctx context.Context, batch []*event.Record) error,
) error {
	decode := func(m *nats.Msg, seq uint64, recheck bool) (*event.Record, error) {
		r, err := decodeRecord(m)
		if err != nil {
			return nil, err
		}
		r.Seq, r.Recheck = seq, recheck
		return r, nil
	}
	b.serveOne(ctx, routeRole(), func(ctx context.Context, c *consumer) error { return readLanes(ctx, c, decode, heavy, route) })
	return nil
}

// FollowEvents calls h with every event accepted since from, in stream order, until ctx ends. Every replica that asks sees all
// events. A record is read from its headers: its Event has the object, the reason, the severity and the time, of the metadata no more
// than the revision, and no message but for the first event.MessageStart bytes of a POSTed failure's. Following survives the loss of the connection, and then goes on where it was.
func (b *Bus) FollowEvents(ctx context.Context, from time.Time, h func(*event.Record)) error {
	seq := uint64(0)
	for ctx.Err() == nil {
		if err := b.follow(ctx, from, &seq, h); err != nil && ctx.Err() == nil {
			b.log.Warn("following the events was interrupted", "error", err)
		}
		_ = wait(ctx, followRetry)
	}
	return nil
}

func (b *Bus) follow(ctx context.Context, from time.Time, seq *uint64, h func(*event.Record)) error {
	cfg := jetstream.OrderedConsumerConfig{HeadersOnly: true, DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &from}
	if *seq > 0 {
		cfg.DeliverPolicy, cfg.OptStartTime, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, nil, *seq+1
	}
	c, err := b.js.OrderedConsumer(ctx, streamEvents, cfg)
	if err != nil {
		return fmt.Errorf("make ordered consumer: %w", err)
	}
	msgs, err := c.Messages()
	if err != nil {
		return fmt.Errorf("read ordered consumer: %w", err)
	}
	defer msgs.Stop()
	stop := context.AfterFunc(ctx, msgs.Stop)
	defer stop()
	for {
		m, err := msgs.Next()
		if err != nil {
			if errors.Is(err, jetstream.ErrMsgIteratorClosed) && ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("next event: %w", err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("read metadata: %w", err)
		}
		*seq = meta.Sequence.Stream
		r, err := recordFromHeaders(m.Headers())
		if err != nil {
			continue // Events has made a dead letter of it
		}
		r.Seq = meta.Sequence.Stream
		h(r)
	}
}

// LastEvent returns the last event of an object that EVENTS still has.
func (b *Bus) LastEvent(ctx context.Context, namespace, kind, name string) (*event.Record, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	raw, err := b.streams[streamEvents].GetLastMsgForSubject(ctx, objectSubject(namespace, kind, name))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("last event of object: %w", err)
	}
	r, err := decodeRecord(&nats.Msg{Subject: raw.Subject, Header: raw.Header, Data: raw.Data})
	if err != nil {
		return nil, false, nil // not an event of ours: as good as none
	}
	r.Seq = raw.Sequence
	return r, true, nil
}
