package bus

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/bus/browse"
	"notifier/internal/event"
)

// logEntry is one message of EVENTS, in the order of the stream.
type logEntry struct {
	seq uint64
	// record is a record that this process published, or nil for a message that was read from the stream: that is msg, stored at a time.
	record *event.Record
	msg    *nats.Msg
	stored time.Time
}

// brief returns a record with the text that is in the headers; nil if the message is no event. Its maps are shared with other readers.
func (l logEntry) brief() *event.Record {
	if l.record != nil {
		r := *l.record
		r.Event.Message = strings.Clone(messageStart(&r)) // a copy, so that the rest of it is not kept
		return &r
	}
	r, err := recordFromHeaders(l.msg.Header)
	if err != nil || l.msg.Subject != eventSubject(r.Event.InvolvedObject) { // compare decodeRecord
		return nil // Events makes a dead letter of it
	}
	r.Seq = l.seq
	return r
}

// feed reads EVENTS in order: from memory the records that this process published lately, and from the stream all others. With a remote
// server, where other replicas publish as well, it reads all of them from the stream.
type feed struct {
	bus *Bus
	// next is the sequence to read next, zero to begin with the events stored since from.
	next uint64
	from time.Time
	// most, unless zero, has only so many messages read, the newest of those that the stream has now, and none that follow.
	most uint64
	// headers has messages of the stream read without their bodies.
	headers bool
	// early has records of this process read before they are on disk. Such a reader calls durableEvents before anything that refers to them
	// is on disk.
	early bool
	// end, unless nil, is called once, when all messages up to newest, the newest one as reading began, are read or gone.
	end    func()
	newest uint64
}

// feedBatch is how many records are taken from memory at a time.
const feedBatch = 256

// run calls each with every message until ctx ends, or until each returns an error, which it returns.
func (f *feed) run(ctx context.Context, each func(logEntry) error) error {
	info, err := f.bus.streams[streamEvents].Info(ctx)
	if err != nil {
		return fmt.Errorf("read stream: %w", err)
	}
	f.newest = info.State.LastSeq
	if err := f.goBack(ctx); err != nil {
		return err
	}
	reader, stop := f.bus.recent.watch(info.State.LastSeq+1, f.early)
	defer stop()
	if f.early {
		read := each
		each = func(l logEntry) error {
			f.bus.recent.advance(reader, l.seq+1)
			return read(l)
		}
	}
	if f.bus.embedded == nil && f.most == 0 {
		return f.read(ctx, noEnd, each)
	}
	if !f.early {
		if err := f.bus.durableEvents(ctx, info.State.LastSeq); err != nil {
			return err
		}
	}
	if err := f.read(ctx, info.State.LastSeq, each); err != nil || ctx.Err() != nil || f.most > 0 {
		return err
	}
	f.atEnd()
	return f.follow(ctx, reader, each)
}

// goBack moves the place back if a remote server lost the end of EVENTS, and gave the next events the places of the lost ones.
func (f *feed) goBack(ctx context.Context) error {
	switch {
	case f.next > f.newest+1:
		f.next = 0
	case f.bus.embedded == nil && f.next > 0 && !f.from.IsZero():
		before, err := f.bus.lastBefore(ctx, f.from)
		if err != nil {
			return err
		}
		f.next = min(f.next, before+1)
	}
	return nil
}

func (f *feed) atEnd() {
	if f.end != nil {
		f.end()
		f.end = nil
	}
}

// follow reads from memory, and from the stream when memory lacks the next record.
func (f *feed) follow(ctx context.Context, reader *recentReader, each func(logEntry) error) error {
	for ctx.Err() == nil {
		records, last := f.bus.recent.take(reader, f.next, feedBatch)
		for _, r := range records {
			if err := each(logEntry{seq: r.Seq, record: r}); err != nil {
				return err
			}
			f.next = r.Seq + 1
		}
		switch {
		case len(records) > 0:
		case last >= f.next:
			if err := f.read(ctx, last, each); err != nil {
				return err
			}
		default:
			select {
			case <-ctx.Done():
			case <-reader.wake:
			}
		}
	}
	return nil
}

// noEnd is after every sequence.
const noEnd = math.MaxUint64

// read reads from the stream up to and including a sequence.
func (f *feed) read(ctx context.Context, last uint64, each func(logEntry) error) error {
	if f.next > last {
		return nil
	}
	open := func() (*streamReader, error) {
		return f.bus.readFrom(ctx, f.bus.stream(streamEvents), f.next, f.from, f.headers)
	}
	msgs, err := open()
	if err == nil && f.most > 0 && msgs.left > f.most {
		msgs.Stop()
		f.next = last - f.most + 1 // at the first pending message or after it
		msgs, err = open()
	}
	if err != nil {
		return err
	}
	defer func() {
		if msgs != nil {
			msgs.Stop()
		}
	}()
	for f.next <= last {
		if msgs.left == 0 {
			if last != noEnd { // the messages up to last have been removed from the stream
				f.next = last + 1
				return nil
			}
			f.atEnd()
		}
		m, meta, err := msgs.next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errDropped):
			msgs.Stop()
			if msgs, err = open(); err != nil {
				return err
			}
			continue
		case err != nil:
			return fmt.Errorf("%w: next event: %w", errInterrupted, err)
		case m == nil:
			continue
		}
		seq := meta.Sequence.Stream
		if seq > last { // all up to last is gone
			f.next = max(f.next, last+1)
			return nil
		}
		msg := &nats.Msg{Subject: m.Subject(), Header: m.Headers(), Data: m.Data()}
		if err := each(logEntry{seq: seq, msg: msg, stored: meta.Timestamp}); err != nil {
			return err
		}
		f.next, f.from = seq+1, meta.Timestamp.Add(1)
		if f.next > f.newest {
			f.atEnd()
		}
	}
	return nil
}

// feedInactive is when the server forgets a consumer that is no longer read, as that of a process that has died. A reader that pauses asks for
// nothing either. It begins anew when it goes on after so long.
const feedInactive = time.Minute

// errDropped says that the client dropped a message, though the connection lasts: its channel has room for the messages of a request, and not
// for the heartbeats that come while the reader pauses. The server has the message.
var errDropped = errors.New("a message was dropped on its way")

// streamReader reads a stream in order, by a consumer of its own. It ends with an error when it may have missed a message, as after the loss of
// the connection or of the consumer. Its caller then begins anew at its place. The client's ordered consumer would go on by itself: beyond the
// end of a stream that lost some messages, and without an end for as long as no new consumer can be made.
type streamReader struct {
	jetstream.MessagesContext
	consumer jetstream.Consumer
	nc       *nats.Conn
	back     chan nats.Status
	lost     uint64 // connections, at the beginning
	read     uint64 // messages
	left     uint64 // messages that the server had behind the last one
}

// stream returns a stream and the connection of b.
func (b *Bus) stream(name string) browse.Stream {
	return browse.Stream{Stream: b.streams[name], Conn: b.nc}
}

// readFrom begins to read a stream in order, at a sequence, or at a time if the sequence is zero.
func (b *Bus) readFrom(ctx context.Context, s browse.Stream, seq uint64, since time.Time, headersOnly bool) (*streamReader, error) {
	cfg := jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, HeadersOnly: headersOnly, MemoryStorage: true, Replicas: 1, InactiveThreshold: feedInactive,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: seq,
	}
	if seq == 0 {
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &since
	}
	lost := s.Conn.Stats().Reconnects
	c, err := s.CreateConsumer(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("make consumer: %w", err)
	}
	msgs, err := c.Messages(jetstream.PullMaxMessagesWithBytesLimit(feedBatch, b.maxPullBytes()), jetstream.PullHeartbeat(pullTimeout/2))
	if err != nil {
		return nil, fmt.Errorf("read consumer: %w", err)
	}
	r := &streamReader{
		MessagesContext: msgs, consumer: c, nc: s.Conn, back: s.Conn.StatusChanged(nats.CONNECTED), lost: lost, left: c.CachedInfo().NumPending,
	}
	go func() { // ends with Stop
		if _, again := <-r.back; again {
			msgs.Stop()
		}
	}()
	return r, nil
}

// next returns the next message. It returns none if none comes within pullTimeout, as when those that the server had left were removed.
func (r *streamReader) next(ctx context.Context) (jetstream.Msg, *jetstream.MsgMetadata, error) {
	wait, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	m, err := r.Next(jetstream.NextContext(wait))
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, nil, r.checkLeft(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	meta, err := m.Metadata()
	if err != nil {
		return nil, nil, fmt.Errorf("read metadata: %w", err)
	}
	if r.read++; meta.Sequence.Consumer != r.read {
		return nil, nil, r.missed()
	}
	r.left = meta.NumPending
	return m, meta, nil
}

// missed returns the reason why a message that the server sent did not come.
func (r *streamReader) missed() error {
	if r.nc.IsConnected() && r.nc.Stats().Reconnects == r.lost {
		return errDropped
	}
	return errors.New("a message was lost on its way")
}

// streamEnd is where a stream ended at a time: behind the count-th message of its reader.
type streamEnd struct {
	at    time.Time
	count uint64
}

// end returns where the stream ends now.
func (r *streamReader) end(ctx context.Context) (streamEnd, error) {
	at := time.Now()
	info, err := r.consumer.Info(ctx)
	if err != nil {
		return streamEnd{}, err
	}
	return streamEnd{at, info.Delivered.Consumer + info.NumPending}, nil
}

// checkLeft returns an error if the server has a message left that it does not send, or has sent one that did not come: the last ones may have
// been dropped. While none is expected it is no error that the server does not answer.
func (r *streamReader) checkLeft(ctx context.Context) error {
	info, err := r.consumer.Info(ctx)
	switch {
	case err != nil && r.left == 0:
		return nil
	case err != nil:
		return err
	case info.Delivered.Consumer != r.read:
		return r.missed()
	case info.NumPending > 0 && r.left > 0:
		return fmt.Errorf("no message came within %s", pullTimeout)
	}
	r.left = info.NumPending
	return nil
}

// Stop ends the reading, and removes the consumer: a server has at most a thousand of a stream, and would have this one for feedInactive. It
// does not wait for the removal.
func (r *streamReader) Stop() {
	r.MessagesContext.Stop()
	r.nc.RemoveStatusListener(r.back)
	if info := r.consumer.CachedInfo(); r.nc.IsConnected() {
		_ = r.nc.Publish("$JS.API.CONSUMER.DELETE."+info.Stream+"."+info.Name, nil) // if it is lost, the server forgets the consumer
	}
}
