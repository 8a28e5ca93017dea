package bus

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

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
	// next is the sequence to read next, zero to begin with the events accepted since from.
	next uint64
	from time.Time
	// most, unless zero, bounds what is read before following begins: of more messages only the newest are read.
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
	reader, stop := f.bus.recent.watch(info.State.LastSeq+1, f.early)
	defer stop()
	if f.early {
		read := each
		each = func(l logEntry) error {
			f.bus.recent.advance(reader, l.seq+1)
			return read(l)
		}
	}
	if f.bus.embedded == nil {
		return f.read(ctx, noEnd, each)
	}
	if !f.early {
		if err := f.bus.durableEvents(ctx, info.State.LastSeq); err != nil {
			return err
		}
	}
	if err := f.read(ctx, info.State.LastSeq, each); err != nil || ctx.Err() != nil {
		return err
	}
	f.atEnd()
	return f.follow(ctx, reader, each)
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
	open := func() (jetstream.MessagesContext, uint64, error) {
		return f.bus.readFrom(ctx, f.bus.streams[streamEvents], f.next, f.from, f.headers)
	}
	msgs, pending, err := open()
	if err == nil && f.most > 0 && pending > f.most {
		msgs.Stop()
		f.next = last - f.most + 1 // at the first pending message or after it
		msgs, pending, err = open()
	}
	if err != nil {
		return err
	}
	f.most = 0
	defer msgs.Stop()
	if last != noEnd && pending == 0 { // the messages up to last have been removed from the stream
		f.next = last + 1
		return nil
	}
	if pending == 0 {
		f.atEnd()
	}
	for f.next <= last {
		m, err := msgs.Next(jetstream.NextContext(ctx)) // Stop may be missed while the consumer is made anew
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("next event: %w", err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("read metadata: %w", err)
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
		f.next = seq + 1
		if f.next > f.newest || meta.NumPending == 0 {
			f.atEnd()
		}
	}
	return nil
}

// feedInactive is when the server forgets a consumer that is no longer read. The client makes such a consumer anew for a reader that
// resumes.
const feedInactive = 10 * time.Second

// readFrom begins to read a stream in order, at a sequence, or at a time if the sequence is zero. It returns the number of messages from
// there on.
func (b *Bus) readFrom(
	ctx context.Context, s jetstream.Stream, seq uint64, since time.Time, headersOnly bool,
) (_ jetstream.MessagesContext, pending uint64, err error) {
	cfg := jetstream.OrderedConsumerConfig{
		HeadersOnly: headersOnly, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: seq, InactiveThreshold: feedInactive,
	}
	if seq == 0 {
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &since
	}
	c, err := s.OrderedConsumer(ctx, cfg)
	if err != nil {
		return nil, 0, fmt.Errorf("make ordered consumer: %w", err)
	}
	// The client counts a request as lost after two heartbeats, and makes the consumer anew. By default it would do so after ten seconds, and
	// a start, which reads EVENTS, would fail.
	msgs, err := c.Messages(jetstream.PullMaxMessagesWithBytesLimit(feedBatch, b.maxPullBytes()), jetstream.PullHeartbeat(pullTimeout/2))
	if err != nil {
		return nil, 0, fmt.Errorf("read ordered consumer: %w", err)
	}
	return &ordered{MessagesContext: msgs, consumer: c, nc: b.nc}, c.CachedInfo().NumPending, nil
}

// ordered are the messages of an ordered consumer.
type ordered struct {
	jetstream.MessagesContext
	consumer jetstream.Consumer
	nc       *nats.Conn
}

// Stop ends the reading, and removes the consumer, which the client does not: a server has at most a thousand of a stream, and would have
// this one for feedInactive. It does not wait for the removal.
func (o *ordered) Stop() {
	o.MessagesContext.Stop()
	if info := o.consumer.CachedInfo(); o.nc.IsConnected() {
		_ = o.nc.Publish("$JS.API.CONSUMER.DELETE."+info.Stream+"."+info.Name, nil) // if it is lost, the server forgets the consumer
	}
}
