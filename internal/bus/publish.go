package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"golang.org/x/sync/errgroup"

	"notifier/internal/event"
)

// ErrFull is returned when a stream's bound leaves no room. What was to be published was not accepted.
var ErrFull = errors.New("stream is full")

// ErrTooLarge is returned for a message beyond the server's maximal payload. It will never be accepted.
var ErrTooLarge = errors.New("message is larger than the bus carries")

const (
	// publishTimeout bounds one publish: senders of webhooks want an answer within five seconds.
	publishTimeout = 4 * time.Second
	// A stream without a leader answers "no responders" at once. A new leader is usually there within a second.
	noResponderRetries = 2
	noResponderWait    = 250 * time.Millisecond
	// The server takes at most 1,000 messages in a batch; the bytes are bounded so that a batch does not hold up the stream. A
	// batch costs the server about seven syncs (it stages it in a directory of its own), so a few messages go better alone.
	maxBatch      = 1000
	minBatch      = 16
	maxBatchBytes = 4 << 20
	// fallbackPublishes is how many single publishes are in flight for a batch that the server did not take, one a subject.
	fallbackPublishes = 64
)

// Codes of the server's answers that mean something to callers.
const (
	codeInsufficientResources = 10023
	codeAccountResources      = 10002
	codeStorageExceeded       = 10047
	codeStoreFailed           = 10077
	codeMessageTooLarge       = 10054
	codeWrongLastSequence     = 10071
)

const (
	headerBatchID  = "Nats-Batch-Id"
	headerBatchSeq = "Nats-Batch-Sequence"
	headerCommit   = "Nats-Batch-Commit"
)

// ack is the stream's answer to a publish: the message is on disk.
type ack struct {
	Stream    string              `json:"stream"`
	Seq       uint64              `json:"seq"`
	Duplicate bool                `json:"duplicate"`
	Batch     string              `json:"batch"`
	Count     int                 `json:"count"`
	Error     *jetstream.APIError `json:"error"`
}

// publish writes m to stream and returns when the stream has confirmed that it is on disk.
func (b *Bus) publish(ctx context.Context, stream string, m *nats.Msg) (ack, error) {
	a, err := b.request(ctx, stream, m)
	if err != nil {
		b.metrics.publishErrors.WithLabelValues(stream).Inc()
		return ack{}, fmt.Errorf("publish to %s: %w", stream, err)
	}
	return a, nil
}

func (b *Bus) request(ctx context.Context, stream string, m *nats.Msg) (ack, error) {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	for try := 0; ; try++ {
		reply, err := b.nc.RequestMsgWithContext(ctx, m)
		switch {
		case err == nil:
			return readAck(stream, reply)
		case errors.Is(err, nats.ErrMaxPayload):
			return ack{}, ErrTooLarge
		case !errors.Is(err, nats.ErrNoResponders) || try == noResponderRetries:
			return ack{}, err
		}
		if err := wait(ctx, noResponderWait); err != nil {
			return ack{}, err
		}
	}
}

func readAck(stream string, reply *nats.Msg) (ack, error) {
	var a ack
	if err := json.Unmarshal(reply.Data, &a); err != nil {
		return ack{}, errors.New("answer is not an acknowledgement")
	}
	if a.Error != nil {
		switch a.Error.ErrorCode {
		case codeInsufficientResources, codeAccountResources, codeStorageExceeded, codeStoreFailed:
			return ack{}, fmt.Errorf("%w: %w", ErrFull, a.Error)
		case codeMessageTooLarge:
			return ack{}, fmt.Errorf("%w: %w", ErrTooLarge, a.Error)
		case codeWrongLastSequence:
			return ack{}, fmt.Errorf("%w: %w", event.ErrOvertaken, a.Error)
		}
		return ack{}, a.Error
	}
	if a.Stream != stream || a.Seq == 0 {
		return ack{}, fmt.Errorf("acknowledged by stream %q", a.Stream)
	}
	return a, nil
}

// outcome is what became of one message of several.
type outcome struct {
	ack ack
	err error
}

// publishAll writes the messages to stream and returns one outcome for each. Several messages go as one atomic batch, which
// costs one fsync instead of one each. A batch that the server refuses (one duplicate or one message that does not fit is
// enough) is published one by one, which is what tells the good from the bad.
//
// The messages of one subject come to stand in the stream in their order, and none of them after one that failed: what
// follows it may not overtake it (invariant E4).
func (b *Bus) publishAll(ctx context.Context, stream string, msgs []*nats.Msg) []outcome {
	out := make([]outcome, len(msgs))
	for start := 0; start < len(msgs); {
		end, bytes := start, 0
		for end < len(msgs) && end-start < maxBatch && (end == start || bytes+msgs[end].Size() <= maxBatchBytes) {
			bytes += msgs[end].Size()
			end++
		}
		a, err := b.publishBatch(ctx, stream, msgs[start:end])
		switch {
		case err == nil:
			for i := start; i < end; i++ {
				// A batch is stored without anything in between, and its answer has the last sequence.
				out[i].ack = ack{Stream: stream, Seq: a.Seq - uint64(end-1-i)}
			}
			start = end
		case refused(err):
			b.publishSingly(ctx, stream, msgs[start:], out[start:])
			return out
		default:
			b.metrics.publishErrors.WithLabelValues(stream).Inc()
			for i := start; i < len(msgs); i++ {
				out[i].err = fmt.Errorf("publish to %s: %w", stream, err)
			}
			return out
		}
	}
	return out
}

// errNoBatch says that so few messages go better one by one.
var errNoBatch = errors.New("not a batch")

// refused reports whether err tells that the batch was not stored, and that the server is there for another try.
func refused(err error) bool {
	_, answered := errors.AsType[*jetstream.APIError](err)
	return answered || errors.Is(err, ErrTooLarge) || errors.Is(err, errNoBatch)
}

// publishSingly publishes the messages of each subject one after the other, up to the first that fails. A message that is too
// large fails alone: it will never stand in the stream, so nothing can overtake it.
func (b *Bus) publishSingly(ctx context.Context, stream string, msgs []*nats.Msg, out []outcome) {
	bySubject := map[string][]int{}
	for i, m := range msgs {
		bySubject[m.Subject] = append(bySubject[m.Subject], i)
	}
	var g errgroup.Group
	g.SetLimit(fallbackPublishes)
	for _, line := range bySubject {
		g.Go(func() error {
			var failed error
			for _, i := range line {
				if out[i].err = failed; failed != nil {
					continue
				}
				if out[i].ack, out[i].err = b.publish(ctx, stream, msgs[i]); !errors.Is(out[i].err, ErrTooLarge) {
					failed = out[i].err
				}
			}
			return nil
		})
	}
	_ = g.Wait()
}

// publishBatch leaves the messages without the batch's headers when it fails.
func (b *Bus) publishBatch(ctx context.Context, stream string, msgs []*nats.Msg) (_ ack, err error) {
	last := len(msgs) - 1
	if len(msgs) < minBatch {
		return ack{}, errNoBatch
	}
	id := nuid.Next()
	defer func() {
		if err != nil {
			for _, m := range msgs {
				m.Header.Del(headerBatchID)
				m.Header.Del(headerBatchSeq)
				m.Header.Del(headerCommit)
			}
		}
	}()
	for i, m := range msgs {
		m.Header.Set(headerBatchID, id)
		m.Header.Set(headerBatchSeq, strconv.Itoa(i+1))
		if i == last {
			m.Header.Set(headerCommit, "1")
			break
		}
		if err := b.nc.PublishMsg(m); err != nil {
			if errors.Is(err, nats.ErrMaxPayload) {
				return ack{}, ErrTooLarge // the server forgets the batch after ten seconds
			}
			return ack{}, err
		}
	}
	a, err := b.request(ctx, stream, msgs[last])
	if err != nil {
		return ack{}, err
	}
	if a.Batch != id || a.Count != len(msgs) || a.Seq < uint64(len(msgs)) {
		return ack{}, fmt.Errorf("batch of %d acknowledged with %d", len(msgs), a.Count)
	}
	return a, nil
}

// newMsg returns a message whose header can be set.
func newMsg(subject string, data []byte) *nats.Msg {
	return &nats.Msg{Subject: subject, Header: nats.Header{}, Data: data}
}

// wait blocks for d or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
