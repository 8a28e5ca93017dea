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
	"notifier/internal/fair"
)

// followRetry is the pause before following is taken up again.
const followRetry = time.Second

// newEventCommitter commits to EVENTS, and tells the readers of each round together.
func newEventCommitter(b *Bus) *committer {
	c := newCommitter(b, func() {}, func(ctx context.Context, msgs []*nats.Msg) []outcome { return b.publishAll(ctx, streamEvents, msgs) })
	c.committed = b.recent.announce
	return c
}

// PublishEvent writes r to EVENTS and returns when the stream has confirmed that it is on disk (invariant E2), and whether it
// was there already, by its ID, within the duplicate window. It sets r.Seq; of a duplicate that is the first one's.
//
// It refuses with ErrFull when the records that were not routed yet take most of the stream: publishing more would make the
// stream discard them. While this process routes and is far behind, it waits, behindWait at most.
func (b *Bus) PublishEvent(ctx context.Context, r *event.Record) (duplicate bool, err error) {
	b.recent.await(ctx)
	return b.publishRecord(r, func(m *nats.Msg) (ack, error) {
		return b.events.commit(ctx, entry{msg: m, namespace: r.Event.InvolvedObject.Namespace, stored: b.remember(r)})
	})
}

// PublishEventAfter is PublishEvent unless EVENTS has got an event of the object since the one at seq, zero for none at all: then it
// refuses with event.ErrOvertaken, also if that one is r itself, of an attempt whose answer was lost.
func (b *Bus) PublishEventAfter(ctx context.Context, r *event.Record, seq uint64) (duplicate bool, err error) {
	return b.publishRecord(r, func(m *nats.Msg) (ack, error) {
		m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(seq, 10))
		a, err := b.publish(ctx, streamEvents, m)
		if err == nil && !a.Duplicate {
			b.remember(r)(a.Seq)
			b.recent.announce()
		}
		return a, err
	})
}

// remember returns what puts a copy of r in memory for the readers of EVENTS, once it has its place in the stream. They read it when they
// are woken.
func (b *Bus) remember(r *event.Record) func(seq uint64) {
	stored := *r
	return func(seq uint64) {
		stored.Seq = seq
		b.recent.put(&stored)
	}
}

func (b *Bus) publishRecord(r *event.Record, commit func(*nats.Msg) (ack, error)) (duplicate bool, err error) {
	if err := r.Event.Validate(); err != nil {
		return false, fmt.Errorf("publish event: %w", err)
	}
	if err := b.stats.checkEventsQuota(); err != nil {
		b.metrics.publishErrors.WithLabelValues(streamEvents).Inc()
		return false, err
	}
	m, h, err := encodeRecord(r)
	if err != nil {
		return false, fmt.Errorf("publish event: %w", err)
	}
	a, err := commit(m)
	if err != nil {
		return false, fmt.Errorf("publish event: %w", err) // the client may still be sending the message
	}
	defer h.release()
	b.recent.note(a.Seq) // a duplicate is perhaps of a publish whose answer was lost
	b.stats.unrouted.Add(int64(m.Size()))
	r.Seq = a.Seq
	return a.Duplicate, nil
}

// FollowEvents calls h with every event accepted since from, in stream order, until ctx ends. Every replica that asks sees all
// events. Of a record's event h may use the object, the reason, the severity, the time, the revision, and of a POSTed failure the first
// event.MessageStart bytes of the message. It may not change the record, nor keep it: others read it, and what is kept of its texts should
// be copied, or all of the event stays in memory. Following survives the loss of the connection, and then goes on where it was.
func (b *Bus) FollowEvents(ctx context.Context, from time.Time, h func(*event.Record)) error {
	f := feed{bus: b, from: from, headers: true}
	for ctx.Err() == nil {
		err := f.run(ctx, func(l logEntry) error {
			if r := l.brief(); r != nil {
				h(r)
			}
			return nil
		})
		if err != nil && ctx.Err() == nil {
			b.log.Warn("following the events was interrupted", "error", err)
		}
		_ = fair.Sleep(ctx, followRetry)
	}
	return nil
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
