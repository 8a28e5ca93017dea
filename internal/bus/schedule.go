package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event"
)

const (
	headerSchedule = "Nats-Schedule"
	headerTarget   = "Nats-Schedule-Target"
	// scheduleAt precedes the time in a schedule that fires once.
	scheduleAt = "@at "
)

// Reschedule puts d back on the schedule for the given time, and returns when that is on disk. The caller then acknowledges the message
// that it has in hand. d is handed out again with its present fields, attempts and last error among them.
//
// A delivery has one place on the schedule, so a reschedule replaces an earlier one, and one that is published again does too. If the time of
// the first has come meanwhile, the delivery is handed out twice, for a recheck, or the first alone: the server reads all messages whose time
// has come, and then stores them one after the other as due, each of which removes what is at its place on the schedule by then. So a copy
// that was handed out must not be acknowledged for a newer one until Recall has found that.
//
// The message has no ID, by which the stream would drop one of the two: an older copy of the delivery, whose acknowledgement was lost, may have
// replaced the first, and the server keeps each ID in memory.
// The error is ErrTooLarge for a delivery that is too large for the bus.
func (b *Bus) Reschedule(ctx context.Context, d *event.Delivery, at time.Time) error {
	shard := b.DeliveryShard(d.Namespace, d.Provider)
	m, err := encodeDelivery(retrySubject(shard, d), "", d)
	if err != nil {
		return fmt.Errorf("reschedule delivery: %w", err)
	}
	if err := b.durableEvents(ctx, d.Order); err != nil {
		return fmt.Errorf("reschedule delivery: %w", err)
	}
	m.Header.Set(headerSchedule, scheduleAt+at.UTC().Format(time.RFC3339Nano))
	m.Header.Set(headerTarget, dueSubject(shard, d))
	if err := b.publish(ctx, streamDeliveries, m); err != nil {
		return fmt.Errorf("reschedule delivery: %w", err)
	}
	b.stats.queued.Add(int64(m.Size()))
	b.stats.waiting.Add(1)
	return nil
}

// Backlog lists the deliveries of a shard that are in DELIVERIES, by its subjects: first those on the schedule, then those that are due. When
// the time of a message has come, the server stores it under its new subject before it removes it from the schedule, so none is missed. A
// message whose time comes in between is listed twice.
func (b *Bus) Backlog(ctx context.Context, shard int) ([]event.Scheduled, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*apiTimeout)
	defer cancel()
	var backlog []event.Scheduled
	shared := interned{}
	for _, prefix := range []string{prefixRetry, prefixDeliver} {
		subjects, err := b.stream(streamDeliveries).Subjects(ctx, prefix+strconv.Itoa(shard)+"."+everythingElse)
		if err != nil {
			return nil, fmt.Errorf("list the deliveries of a shard: %w", err)
		}
		backlog = slices.Grow(backlog, len(subjects))
		for _, subject := range subjects {
			p, err := parseScheduledSubject(subject, shared)
			if err != nil {
				b.log.Error("a rescheduled delivery is not understood", "namespace", namespaceOf(subject), "error", err)
				continue
			}
			backlog = append(backlog, p)
		}
	}
	return backlog, nil
}

// Recall reads a delivery off the schedule before its time. The message stays there until Ack, so that a process that dies in between loses
// nothing. A Reschedule still replaces it.
func (b *Bus) Recall(ctx context.Context, shard int, p event.Scheduled) (event.Recalled, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	stream := b.streams[streamDeliveries]
	raw, err := stream.GetLastMsgForSubject(ctx, scheduledSubject(prefixRetry, shard, p))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		_, err = stream.GetLastMsgForSubject(ctx, scheduledSubject(prefixDeliver, shard, p))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return event.Recalled{}, nil
		}
		if err == nil {
			return event.Recalled{Due: true}, nil
		}
	}
	if err != nil {
		return event.Recalled{}, fmt.Errorf("recall delivery: %w", err)
	}
	if isMark(raw) {
		if err := stream.Purge(ctx, jetstream.WithPurgeSubject(raw.Subject), jetstream.WithPurgeSequence(raw.Sequence+1)); err != nil {
			return event.Recalled{}, fmt.Errorf("recall delivery: %w", err)
		}
		return event.Recalled{}, nil
	}
	d, err := decodeDelivery(asMsg(raw))
	if err != nil {
		return event.Recalled{}, fmt.Errorf("recall delivery: %w", err)
	}
	at, err := time.Parse(time.RFC3339Nano, strings.TrimPrefix(raw.Header.Get(headerSchedule), scheduleAt))
	if err != nil {
		return event.Recalled{}, errors.New("recall delivery: its schedule is not understood")
	}
	held := &rescheduled{bus: b, namespace: p.Namespace, subject: raw.Subject, seq: raw.Sequence, at: at}
	return event.Recalled{Held: event.Message[event.Delivery]{Value: d, Acker: held}, At: at}, nil
}

// rescheduled acknowledges a message of the schedule, which is not handed out elsewhere before its time.
type rescheduled struct {
	bus                *Bus
	namespace, subject string
	seq                uint64
	at                 time.Time
	// marked says that a mark has replaced the message, and seq is the mark's. tried says that one may have.
	marked, tried bool
	ended         atomic.Bool
}

// The server remembers the time of a message that is only removed, in memory and in a file, until it has come: 280 bytes for each delivery that
// was to wait for a day. It forgets the time if a message without one comes before, which costs about as much as the removal. So it may remember
// the times of the next forgetsWithin, rememberedBurst more, and as many as are removed in a day at rememberedRate a second.
const (
	forgetsWithin   = 5 * time.Minute
	rememberedRate  = 1
	rememberedBurst = 100_000
)

// Ack removes the message from the schedule. It succeeds if the message is no longer there, since its time has come or a Reschedule has
// replaced it.
func (p *rescheduled) Ack(ctx context.Context) error {
	if p.ended.Load() {
		return nats.ErrMsgAlreadyAckd
	}
	if !p.marked && (p.tried || time.Until(p.at) > forgetsWithin && !p.bus.remembered.Allow()) {
		if err := p.setMark(ctx); err != nil {
			return fmt.Errorf("take delivery off the schedule: %w", err)
		}
	}
	if err := p.bus.remove(ctx, streamDeliveries, p.namespace, p.seq); err != nil {
		return fmt.Errorf("take delivery off the schedule: %w", err)
	}
	p.ended.Store(true)
	return nil
}

// setMark replaces the message by an empty one without a schedule, unless another has replaced it. After a crash Recall removes the mark.
func (p *rescheduled) setMark(ctx context.Context) error {
	turn, err := p.bus.turns[streamDeliveries].Acquire(ctx, p.namespace, 1)
	if err != nil {
		return err
	}
	defer turn.Release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTimeout)
	defer cancel()
	p.tried = true
	mark := newMsg(p.subject, nil)
	mark.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	ack, err := p.bus.js.PublishMsg(ctx, mark, jetstream.WithExpectLastSequencePerSubject(p.seq))
	if err = publishError(err); err == nil {
		p.marked, p.seq = true, ack.Sequence
	}
	if errors.Is(err, event.ErrOvertaken) {
		return p.findMark(ctx)
	}
	return err
}

// findMark looks for a mark whose publish was not answered.
func (p *rescheduled) findMark(ctx context.Context) error {
	raw, err := p.bus.streams[streamDeliveries].GetLastMsgForSubject(ctx, p.subject)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil
	case err != nil:
		return err
	case isMark(raw):
		p.marked, p.seq = true, raw.Sequence
	}
	return nil
}

// isMark reports whether a message was published by setMark.
func isMark(m *jetstream.RawStreamMsg) bool {
	return len(m.Data) == 0 && m.Header.Get(headerSchedule) == ""
}

// InProgress does nothing: the message is not handed out before its time.
func (p *rescheduled) InProgress() error { return nil }

// Nak leaves the message on the schedule.
func (p *rescheduled) Nak() error {
	p.ended.Store(true)
	return nil
}

// remove deletes one message of a namespace from a stream. It does no harm when the message is gone. Removals take the turns of publishes:
// they are as many, and each is synced as well.
func (b *Bus) remove(ctx context.Context, stream, namespace string, seq uint64) error {
	turn, err := b.turns[stream].Acquire(ctx, namespace, 1)
	if err != nil {
		return fmt.Errorf("remove message: %w", err)
	}
	defer turn.Release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTimeout)
	defer cancel()
	if err := b.streams[stream].DeleteMsg(ctx, seq); err != nil && !isGone(err) {
		return fmt.Errorf("remove message: %w", err)
	}
	return nil
}

// isGone reports whether a removal failed because the stream has no such message. The client keeps only the text of the server's answer.
// The server has code 10043 for a sequence without a message, and one code for all errors of its store.
func isGone(err error) bool {
	return errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) && slices.ContainsFunc(
		[]string{"err_code=10043", "no message found", "deleted message"}, func(text string) bool { return strings.Contains(err.Error(), text) },
	)
}
