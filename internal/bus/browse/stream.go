package browse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// ErrNone says that the stream has no such message.
var ErrNone = errors.New("no such message")

// Stream reads single messages of a stream. It reads directly from the server's store, or from the stream's leader where that store may be
// a copy that lags behind.
type Stream struct {
	Conn *nats.Conn
	Name string
	// Direct is true when the stream allows direct reads (AllowDirect).
	Direct bool
}

// Message is a message of a stream. Time is when it was stored.
type Message struct {
	Subject string
	Seq     uint64
	Time    time.Time
	Header  nats.Header
	Data    []byte
}

// request is the body of $JS.API.STREAM.MSG.GET and of $JS.API.DIRECT.GET (ADR-31 of nats-architecture-and-design). The last three are for
// direct reads alone.
type request struct {
	Seq       uint64     `json:"seq,omitempty"`
	Last      string     `json:"last_by_subj,omitempty"`
	Next      string     `json:"next_by_subj,omitempty"`
	StartTime *time.Time `json:"start_time,omitempty"`
	Batch     int        `json:"batch,omitempty"`
	MaxBytes  int        `json:"max_bytes,omitempty"`
}

// requestTime bounds one request.
const requestTime = 5 * time.Second

const (
	apiDirect = "$JS.API.DIRECT.GET."
	apiGet    = "$JS.API.STREAM.MSG.GET."
	// codeNoMessage is the answer of apiGet when there is no such message.
	codeNoMessage = 10037

	headerStatus   = "Status"
	headerSubject  = "Nats-Subject"
	headerSequence = "Nats-Sequence"
	headerTime     = "Nats-Time-Stamp"
	statusNone     = "404"
	statusEnd      = "204"
)

// At returns the message of a sequence, or ErrNone.
func (s Stream) At(ctx context.Context, seq uint64) (Message, error) {
	return s.get(ctx, request{Seq: max(seq, 1)})
}

// Next returns the first message of a filter at seq or later, or ErrNone.
func (s Stream) Next(ctx context.Context, seq uint64, filter string) (Message, error) {
	return s.get(ctx, request{Seq: max(seq, 1), Next: filter})
}

// Last returns the last message of a filter, or ErrNone.
func (s Stream) Last(ctx context.Context, filter string) (Message, error) {
	return s.get(ctx, request{Last: filter})
}

// Since returns the sequence of the first message that was stored at t or later, or ErrNone.
func (s Stream) Since(ctx context.Context, t time.Time) (uint64, error) {
	t = t.UTC()
	m, err := s.get(ctx, request{StartTime: &t, Next: ">"})
	return m.Seq, err
}

func (s Stream) get(ctx context.Context, r request) (Message, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return Message{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	if s.Direct {
		reply, err := s.Conn.RequestWithContext(ctx, apiDirect+s.Name, body)
		if err != nil {
			return Message{}, fmt.Errorf("read %s: %w", s.Name, err)
		}
		return s.direct(reply)
	}
	reply, err := s.Conn.RequestWithContext(ctx, apiGet+s.Name, body)
	if err != nil {
		return Message{}, fmt.Errorf("read %s: %w", s.Name, err)
	}
	return s.stored(reply.Data)
}

// direct reads an answer to a direct read, which is the message itself with headers for its subject, sequence and time.
func (s Stream) direct(reply *nats.Msg) (m Message, err error) {
	switch status := reply.Header.Get(headerStatus); status {
	case "":
	case statusNone:
		return m, ErrNone
	default:
		return m, fmt.Errorf("read %s: the server answered %s", s.Name, status)
	}
	m.Subject, m.Header, m.Data = reply.Header.Get(headerSubject), reply.Header, reply.Data
	if m.Seq, err = strconv.ParseUint(reply.Header.Get(headerSequence), 10, 64); err != nil {
		return m, fmt.Errorf("read %s: answer without a sequence", s.Name)
	}
	if m.Time, err = time.Parse(time.RFC3339Nano, reply.Header.Get(headerTime)); err != nil {
		return m, fmt.Errorf("read %s: answer without a time", s.Name)
	}
	return m, nil
}

// stored reads an answer of apiGet.
func (s Stream) stored(reply []byte) (m Message, err error) {
	var answer struct {
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
		Error *struct {
			Code int `json:"err_code"`
		} `json:"error"`
	}
	if err := json.Unmarshal(reply, &answer); err != nil {
		return m, fmt.Errorf("read %s: answer is not understood", s.Name)
	}
	switch {
	case answer.Error != nil && answer.Error.Code == codeNoMessage:
		return m, ErrNone
	case answer.Error != nil || answer.Message == nil:
		return m, fmt.Errorf("read %s: the server refused", s.Name)
	}
	m.Subject, m.Seq, m.Time, m.Data = answer.Message.Subject, answer.Message.Seq, answer.Message.Time, answer.Message.Data
	if len(answer.Message.Header) > 0 {
		if m.Header, err = nats.DecodeHeadersMsg(answer.Message.Header); err != nil {
			return m, fmt.Errorf("read %s: headers are not understood", s.Name)
		}
	}
	return m, nil
}

// ranged calls each with the messages of the stream from a sequence on, of any subject, until r.Batch messages or r.MaxBytes bytes were
// read or each returns false. Only direct reads can do this.
func (s Stream) ranged(ctx context.Context, r request, each func(Message) bool) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	answers := make(chan *nats.Msg, r.Batch+1) // and the end; a subscription's own queue has half a mebibyte
	sub, err := s.Conn.ChanSubscribe(s.Conn.NewInbox(), answers)
	if err != nil {
		return fmt.Errorf("read %s: %w", s.Name, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := s.Conn.PublishRequest(apiDirect+s.Name, sub.Subject, body); err != nil {
		return fmt.Errorf("read %s: %w", s.Name, err)
	}
	for {
		var reply *nats.Msg
		select {
		case reply = <-answers:
		case <-ctx.Done():
			return fmt.Errorf("read %s: %w", s.Name, ctx.Err())
		}
		if reply.Header.Get(headerStatus) == statusEnd {
			return nil
		}
		m, err := s.direct(reply)
		if errors.Is(err, ErrNone) {
			return nil
		}
		if err != nil || !each(m) {
			return err
		}
	}
}
