package browse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Stream is a stream with three reads that the client lacks or makes slowly. The client reads directly from the server's store, or from the
// stream's leader where that store may be a copy that lags behind (AllowDirect).
type Stream struct {
	jetstream.Stream
	Conn *nats.Conn
}

// request is the body of $JS.API.STREAM.MSG.GET and of $JS.API.DIRECT.GET (ADR-31 of nats-architecture-and-design). The last two are for
// direct reads alone.
type request struct {
	Seq       uint64     `json:"seq,omitempty"`
	Next      string     `json:"next_by_subj,omitempty"`
	StartTime *time.Time `json:"start_time,omitempty"`
	Batch     int        `json:"batch,omitempty"`
	MaxBytes  int        `json:"max_bytes,omitempty"`
}

const (
	apiDirect = "$JS.API.DIRECT.GET."
	apiGet    = "$JS.API.STREAM.MSG.GET."

	headerStatus = "Status"
	statusNone   = "404"
	statusEnd    = "204"
)

func (s Stream) name() string { return s.CachedInfo().Config.Name }

// direct reports whether the stream allows direct reads.
func (s Stream) direct() bool { return s.CachedInfo().Config.AllowDirect }

// since returns the sequence of the first message that was stored at t or later, or jetstream.ErrMsgNotFound.
func (s Stream) since(ctx context.Context, t time.Time) (uint64, error) {
	t = t.UTC()
	body, err := json.Marshal(request{StartTime: &t, Next: ">"})
	if err != nil {
		return 0, err
	}
	reply, err := s.Conn.RequestWithContext(ctx, apiGet+s.name(), body)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", s.name(), err)
	}
	var answer struct {
		Message struct {
			Seq uint64 `json:"seq"`
		} `json:"message"`
		Error *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(reply.Data, &answer); {
	case err != nil:
		return 0, fmt.Errorf("read %s: answer is not understood", s.name())
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return 0, jetstream.ErrMsgNotFound
	case answer.Error != nil:
		return 0, fmt.Errorf("read %s: %w", s.name(), answer.Error)
	}
	return answer.Message.Seq, nil
}

// Resume returns where a reader goes on that has read all up to a sequence, the last of it stored before a time: behind that sequence. But if
// the server lost the end of the stream, and gave the next messages the places of the lost ones, it is at the first of these.
func (s Stream) Resume(ctx context.Context, next uint64, since time.Time) (uint64, error) {
	info, err := s.Info(ctx) // before the message is looked for: it may be stored meanwhile
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", s.name(), err)
	}
	first, err := s.since(ctx, since)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		first, err = info.State.LastSeq+1, nil
	}
	return min(next, first), err
}

// ranged calls each with the messages of the stream from a sequence on, of any subject, until r.Batch messages or r.MaxBytes bytes were
// read or each returns false. Only direct reads can do this.
func (s Stream) ranged(ctx context.Context, r request, each func(*jetstream.RawStreamMsg) bool) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	answers := make(chan *nats.Msg, r.Batch+1) // and the end; a subscription's own queue has half a mebibyte
	sub, err := s.Conn.ChanSubscribe(s.Conn.NewInbox(), answers)
	if err != nil {
		return fmt.Errorf("read %s: %w", s.name(), err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := s.Conn.PublishRequest(apiDirect+s.name(), sub.Subject, body); err != nil {
		return fmt.Errorf("read %s: %w", s.name(), err)
	}
	for {
		var reply *nats.Msg
		select {
		case reply = <-answers:
		case <-ctx.Done():
			return fmt.Errorf("read %s: %w", s.name(), ctx.Err())
		}
		switch status := reply.Header.Get(headerStatus); status {
		case "":
		case statusEnd, statusNone:
			return nil
		default:
			return fmt.Errorf("read %s: the server answered %s", s.name(), status)
		}
		m, err := stored(reply)
		if err != nil {
			return fmt.Errorf("read %s: %w", s.name(), err)
		}
		if !each(m) {
			return nil
		}
	}
}

// stored returns the message of an answer to a direct read, which has headers for the message's subject, sequence and time.
func stored(reply *nats.Msg) (*jetstream.RawStreamMsg, error) {
	m := &jetstream.RawStreamMsg{Subject: reply.Header.Get(jetstream.SubjectHeader), Header: reply.Header, Data: reply.Data}
	var noSequence, noTime error
	m.Sequence, noSequence = strconv.ParseUint(reply.Header.Get(jetstream.SequenceHeader), 10, 64)
	m.Time, noTime = time.Parse(time.RFC3339Nano, reply.Header.Get(jetstream.TimeStampHeaer))
	if noSequence != nil || noTime != nil {
		return nil, errors.New("answer without a sequence or a time")
	}
	return m, nil
}
