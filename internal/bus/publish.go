package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event"
)

// ErrFull is returned when a stream's bound is reached. The message was not accepted.
var ErrFull = errors.New("stream is full")

// ErrTooLarge is returned for a message beyond the server's maximal payload, or with a subject that is too long. It will never be
// accepted.
var ErrTooLarge = event.ErrTooLarge

const (
	// publishTimeout bounds one publish: senders of webhooks want an answer within five seconds.
	publishTimeout = 4 * time.Second
	// maxBatch and maxBatchBytes bound the messages that are on their way to the server at a time: the server refuses more than 10,000
	// messages, and a large batch delays the stream.
	maxBatch      = 1000
	maxBatchBytes = 4 << 20
	// maxSubject bounds a subject in bytes. A server closes the connection of a client that sends a line of more than 4 KiB, which has the
	// subject of the answer and two numbers beside it, and a closed connection ends this process.
	maxSubject = 3 << 10
	// maxPublishing is how many messages of this process may be on their way to the server.
	maxPublishing = 1 << 16
	// maxUnanswered is how many single messages of a stream may await the server's answer at a time, maxUnansweredEach how many of a
	// namespace. A server that syncs each message for up to 60 ms answers as many within publishTimeout.
	maxUnanswered     = 64
	maxUnansweredEach = 16
)

// Codes of the server's answers that mean something to callers.
const (
	codeInsufficientResources = 10023
	codeAccountResources      = 10002
	codeStorageExceeded       = 10047
	codeStoreFailed           = 10077
)

// outcome is the result of publishing one message of several.
type outcome struct {
	ack jetstream.PubAck
	err error
}

// publish writes m to stream and returns when it is on disk (see durable). It waits for its turn until ctx ends, and then returns within
// publishTimeout, also with an error.
func (b *Bus) publish(ctx context.Context, stream string, m *nats.Msg) error {
	return b.publishOne(ctx, stream, m).err
}

// publishOne is publish with the whole outcome.
//
// Very many deliveries may be put on the schedule at once, and again after an error. A server with a slow disk serves them in their order.
// Without turns it would be late for each of them, and what is published again would make it later.
func (b *Bus) publishOne(ctx context.Context, stream string, m *nats.Msg) outcome {
	turn, err := b.turns[stream].Acquire(ctx, namespaceOf(m.Subject), 1)
	if err != nil {
		out := []outcome{{err: err}}
		b.confirm(ctx, stream, out)
		return out[0]
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTimeout)
	defer cancel()
	msgs := []*nats.Msg{m}
	out := b.writeAll(ctx, stream, msgs)
	turn.Release() // one sync serves all that were stored before it
	b.confirm(ctx, stream, out)
	b.quotas[stream].count(msgs, out)
	return out[0]
}

// publishUnlessThere is publish for a message that an earlier one with its ID makes needless only while that is in the stream. The stream
// drops such a message also after the earlier one was handled and removed, by an outcome that was not meant for this one.
func (b *Bus) publishUnlessThere(ctx context.Context, stream string, m *nats.Msg) error {
	out := b.publishOne(ctx, stream, m)
	if out.err != nil || !out.ack.Duplicate {
		return out.err
	}
	there, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if _, err := b.streams[stream].GetMsg(there, out.ack.Sequence); !errors.Is(err, jetstream.ErrMsgNotFound) {
		return err
	}
	m.Header.Del(nats.MsgIdHdr)
	return b.publish(ctx, stream, m)
}

// publishAll writes the messages to stream and returns one outcome for each when all stored ones are on disk, by one sync of the stream's
// files. It awaits the server's answers until ctx ends, or the client gives them up (see connect), and no sync for longer than
// publishTimeout.
//
// The messages of one subject are in the stream in their order, and none of them after a failed one: later messages may not overtake it
// (invariant E4). A message that is too large, or overtaken already, fails alone: it will never be in the stream, so no message can overtake
// it.
func (b *Bus) publishAll(ctx context.Context, stream string, msgs []*nats.Msg) []outcome {
	out := b.writeAll(ctx, stream, msgs)
	b.confirm(ctx, stream, out)
	b.quotas[stream].count(msgs, out)
	return out
}

// writeAll is the first half of publishAll: the messages that it stored may not be on disk yet.
func (b *Bus) writeAll(ctx context.Context, stream string, msgs []*nats.Msg) []outcome {
	out := make([]outcome, len(msgs))
	for next := bySubject(msgs); len(next) > 0; {
		next = b.publishFirsts(ctx, stream, msgs, next, out)
	}
	return out
}

// confirm is the second half of publishAll. It syncs the stream if a message was stored or was a duplicate: the first message of the same ID
// may not yet be on disk.
func (b *Bus) confirm(ctx context.Context, stream string, out []outcome) {
	var failed error
	if slices.ContainsFunc(out, func(o outcome) bool { return o.err == nil }) {
		ctx, cancel := context.WithTimeout(ctx, publishTimeout)
		failed = b.durable(ctx, stream)
		cancel()
	}
	for i := range out {
		if err := cmp.Or(out[i].err, failed); err != nil {
			b.metrics.publishErrors.WithLabelValues(stream).Inc()
			out[i] = outcome{err: fmt.Errorf("publish to %s: %w", stream, err)}
		}
	}
}

// durable returns when everything that the stream acknowledged before the call is on disk, or when ctx ends. A remote server's
// acknowledgements are trusted. After an error the stream is no longer written, and Run returns ErrLost.
func (b *Bus) durable(ctx context.Context, stream string) error {
	if b.sync == nil {
		return nil
	}
	return b.sync(ctx, stream)
}

// bySubject returns the indices of the messages of each subject, in the order of the subjects' first messages.
func bySubject(msgs []*nats.Msg) [][]int {
	if len(msgs) == 1 {
		return [][]int{{0}}
	}
	at := make(map[string]int, len(msgs))
	var subjects [][]int
	for i, m := range msgs {
		k, known := at[m.Subject]
		if !known {
			k = len(subjects)
			at[m.Subject], subjects = k, append(subjects, nil)
		}
		subjects[k] = append(subjects[k], i)
	}
	return subjects
}

// publishFirsts publishes the first message of each subject, and returns the remaining messages of the subjects. It sends the messages one
// right after the other, and then awaits their acknowledgements.
func (b *Bus) publishFirsts(ctx context.Context, stream string, msgs []*nats.Msg, subjects [][]int, out []outcome) (left [][]int) {
	for len(subjects) > 0 {
		sent := make([]sending, 0, min(len(subjects), maxBatch))
		for size := 0; len(sent) < min(len(subjects), maxBatch) && size < maxBatchBytes; {
			m := msgs[subjects[len(sent)][0]]
			sent, size = append(sent, b.begin(stream, m)), size+m.Size()
		}
		for k, s := range sent {
			first, rest := subjects[k][0], subjects[k][1:]
			out[first] = b.await(ctx, stream, s)
			if stream == streamEvents && s.known == 0 {
				b.duplicates.keep(msgs[first], out[first])
			}
			if err := out[first].err; err != nil && !errors.Is(err, ErrTooLarge) && !errors.Is(err, event.ErrOvertaken) {
				for _, i := range rest {
					out[i].err = err
				}
				continue
			}
			if len(rest) > 0 {
				left = append(left, rest)
			}
		}
		subjects = subjects[len(sent):]
	}
	return left
}

// sending is a message on its way to the server, or the sequence of its event, which EVENTS has already, or the reason why it could not be
// sent.
type sending struct {
	answer jetstream.PubAckFuture
	known  uint64
	err    error
}

// begin sends a message to the server.
func (b *Bus) begin(stream string, m *nats.Msg) (s sending) {
	if stream == streamEvents {
		if seq, known := b.duplicates.find(header(m.Header, nats.MsgIdHdr), time.Now()); known {
			return sending{known: seq}
		}
	}
	if len(m.Subject) > maxSubject {
		return sending{err: ErrTooLarge}
	}
	s.answer, s.err = b.js.PublishMsgAsync(m)
	return s
}

// await returns the server's answer to one message, or an error when the bus or ctx ends.
func (b *Bus) await(ctx context.Context, stream string, s sending) outcome {
	if s.err != nil {
		return outcome{err: publishError(s.err)}
	}
	if s.known > 0 {
		return outcome{ack: jetstream.PubAck{Stream: stream, Sequence: s.known, Duplicate: true}}
	}
	select {
	case a := <-s.answer.Ok():
		if a.Stream != stream || a.Sequence == 0 {
			return outcome{err: fmt.Errorf("acknowledged by stream %q", a.Stream)}
		}
		return outcome{ack: *a}
	case err := <-s.answer.Err():
		return outcome{err: publishError(err)}
	case <-b.ending:
		return outcome{err: nats.ErrConnectionClosed}
	case <-ctx.Done():
		return outcome{err: ctx.Err()}
	}
}

// publishError translates an answer of the server or the client into one of the errors that mean something to callers.
func publishError(err error) error {
	if errors.Is(err, nats.ErrMaxPayload) {
		return ErrTooLarge
	}
	refusal, answered := errors.AsType[*jetstream.APIError](err)
	if !answered {
		return err
	}
	switch refusal.ErrorCode {
	case codeInsufficientResources, codeAccountResources, codeStorageExceeded, codeStoreFailed:
		return fmt.Errorf("%w: %w", ErrFull, err)
	case jetstream.JSErrCodeStreamMessageExceedsMaximum:
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant:
		return fmt.Errorf("%w: %w", event.ErrOvertaken, err)
	}
	return err
}

// newMsg returns a message whose header can be set.
func newMsg(subject string, data []byte) *nats.Msg {
	return &nats.Msg{Subject: subject, Header: nats.Header{}, Data: data}
}
