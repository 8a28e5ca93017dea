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

// newEventCommitter commits to EVENTS, and wakes the readers twice for each round: when it is written, for those that are early, and when it
// is on disk.
func newEventCommitter(b *Bus) *committer {
	c := newCommitter(b, func(ctx context.Context, msgs []*nats.Msg) []outcome {
		out := b.writeAll(ctx, streamEvents, msgs)
		b.quotas[streamEvents].count(msgs, out)
		return out
	})
	c.announce = b.recent.announce
	c.confirm = func(ctx context.Context, out []outcome) {
		b.confirm(ctx, streamEvents, out)
		newest := uint64(0)
		for _, o := range out {
			if o.err == nil {
				newest = max(newest, o.ack.Sequence)
			}
		}
		b.recent.note(newest)
	}
	return c
}

// PublishEvent writes r to EVENTS and returns when the stream has confirmed that it is on disk (invariant E2). It reports whether r was
// there already, by its ID, within the duplicate window. It sets r.Seq; for a duplicate that is the sequence of the first one.
//
// It refuses with ErrFull when the records that were not yet routed take most of the stream: publishing more would make the stream discard
// them; and when too many of the namespace's wait to be routed. While this process routes and is far behind, it waits, behindWait at most.
func (b *Bus) PublishEvent(ctx context.Context, r *event.Record) (duplicate bool, err error) {
	b.recent.await(ctx)
	return b.publishRecord(ctx, r, "")
}

// PublishEventAfter is like PublishEvent, but refuses with event.ErrOvertaken if EVENTS has an event of the object after the one at seq,
// zero for none at all. With a remote server it also refuses if that event is r itself, of an attempt whose answer was lost.
func (b *Bus) PublishEventAfter(ctx context.Context, r *event.Record, seq uint64) (duplicate bool, err error) {
	return b.publishRecord(ctx, r, strconv.FormatUint(seq, 10))
}

// publishRecord publishes r, unless it is a duplicate, behind the last event of its object if that is given. If an earlier publish of r has no
// outcome yet, that is known before this one's round begins.
func (b *Bus) publishRecord(ctx context.Context, r *event.Record, last string) (duplicate bool, err error) {
	if err := b.duplicates.await(ctx); err != nil {
		b.metrics.publishErrors.WithLabelValues(streamEvents).Inc()
		return false, fmt.Errorf("publish event: %w", err)
	}
	if seq, known := b.duplicates.find(r.ID, time.Now()); known { // a remote server alone knows the IDs, and answers the publish accordingly
		r.Seq = seq
		ctx, cancel := context.WithTimeout(ctx, publishTimeout)
		defer cancel()
		return true, b.durableEvents(ctx, seq)
	}
	if err := r.Event.Validate(); err != nil {
		return false, fmt.Errorf("publish event: %w", err)
	}
	namespace := r.Event.InvolvedObject.Namespace
	err = b.stats.checkEventsQuota()
	if err == nil {
		err = b.backlogged.await(ctx, namespace)
	}
	if err != nil {
		b.metrics.publishErrors.WithLabelValues(streamEvents).Inc()
		return false, err
	}
	m, h, err := encodeRecord(r)
	if err != nil {
		return false, fmt.Errorf("publish event: %w", err)
	}
	if last != "" {
		m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, last)
	}
	a, err := b.events.commit(ctx, entry{msg: m, namespace: namespace, stored: b.remember(r)})
	if err != nil {
		return false, fmt.Errorf("publish event: %w", err) // the message stays in use: the client may still be sending it
	}
	defer h.release()
	b.recent.note(a.Sequence) // of a duplicate, the answer to the first publish may have been lost
	b.stats.unrouted.Add(int64(m.Size()))
	r.Seq = a.Sequence
	return a.Duplicate, nil
}

// remember returns a function that puts a copy of r, with its place in the stream, in memory, for the readers of EVENTS. They read it when
// they are woken. It returns nil with a remote server: then they read the stream alone.
func (b *Bus) remember(r *event.Record) func(jetstream.PubAck) {
	if b.embedded == nil {
		return nil
	}
	stored := *r
	return func(a jetstream.PubAck) {
		if !a.Duplicate {
			stored.Seq = a.Sequence
			b.recent.put(&stored)
		}
	}
}

// durableEvents returns when EVENTS is on disk up to and including seq. Messages and keys that refer to an event that was read early are
// written after that: a loss of power would otherwise give the event's place to another one.
func (b *Bus) durableEvents(ctx context.Context, seq uint64) error {
	if b.recent.isNoted(seq) {
		return nil
	}
	if err := b.durable(ctx, streamEvents); err != nil {
		return fmt.Errorf("sync events: %w", err)
	}
	return nil // seq is not noted: it may be of a stream before this one
}

// FollowEvents calls h with every event accepted since from, in stream order, until ctx ends. Every replica that follows gets all events.
// It calls caughtUp, unless nil, once, after the last event that EVENTS had when following began.
// Of a record's event h may use the object, the reason, the severity, the time and the revision, and of a POSTed failure the first
// event.MessageStart bytes of the message. It must not change the record's maps, since other readers share them. After the loss of the
// connection following resumes at its place.
func (b *Bus) FollowEvents(ctx context.Context, from time.Time, h func(*event.Record), caughtUp func()) {
	f := feed{bus: b, from: from, headers: true, end: caughtUp}
	b.resuming(ctx, streamEvents, func() error {
		return f.run(ctx, func(l logEntry) error {
			if r := l.brief(); r != nil {
				h(r)
			}
			return nil
		})
	})
}

// LastEvent returns the last event of an object that EVENTS still has. It is on disk.
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
	if err := b.durableEvents(ctx, raw.Sequence); err != nil {
		return nil, false, fmt.Errorf("last event of object: %w", err)
	}
	r, err := decodeRecord(asMsg(raw))
	if err != nil {
		return nil, false, nil // not an event of ours: counts as none
	}
	r.Seq = raw.Sequence
	return r, true, nil
}
