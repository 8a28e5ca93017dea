package bus

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// roughEvents is EVENTS.
type roughEvents struct {
	jetstream.Stream
	s *rough
}

func (e roughEvents) Info(ctx context.Context, _ ...jetstream.StreamInfoOpt) (info *jetstream.StreamInfo, err error) {
	err = e.s.request(ctx, func() error {
		info = &jetstream.StreamInfo{Created: e.s.created, State: jetstream.StreamState{
			FirstSeq: e.s.first(time.Time{}), LastSeq: uint64(len(e.s.log)), LastTime: time.Now(),
		}}
		return nil
	})
	return info, err
}

func (e roughEvents) GetMsg(ctx context.Context, seq uint64, _ ...jetstream.GetMsgOpt) (m *jetstream.RawStreamMsg, err error) {
	err = e.s.request(ctx, func() error {
		if seq == 0 || seq > uint64(len(e.s.log)) || e.s.log[seq-1] == nil {
			return jetstream.ErrMsgNotFound
		}
		m = &jetstream.RawStreamMsg{Sequence: seq, Time: e.s.log[seq-1].at}
		return nil
	})
	return m, err
}

func (e roughEvents) CreateConsumer(ctx context.Context, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	c := &roughConsumer{s: e.s, ctx: ctx, next: max(cfg.OptStartSeq, 1)}
	err := e.s.request(ctx, func() error {
		if cfg.OptStartTime != nil {
			c.next = e.s.first(*cfg.OptStartTime)
		}
		c.left = e.s.left(c.next)
		return nil
	})
	return c, err
}

// first returns the sequence of the first message since a time. The caller holds the lock.
func (s *rough) first(since time.Time) uint64 {
	for i, m := range s.log {
		if m != nil && !m.at.Before(since) {
			return uint64(i + 1)
		}
	}
	return uint64(len(s.log) + 1)
}

// left counts the messages from a sequence on. The caller holds the lock.
func (s *rough) left(seq uint64) (n uint64) {
	for ; seq <= uint64(len(s.log)); seq++ {
		if s.log[seq-1] != nil {
			n++
		}
	}
	return n
}

// roughConsumer is a consumer and what it reads.
type roughConsumer struct {
	jetstream.Consumer
	s                *rough
	ctx              context.Context
	next, left, read uint64
}

func (c *roughConsumer) Info(ctx context.Context) (info *jetstream.ConsumerInfo, err error) {
	err = c.s.request(ctx, func() error {
		info = &jetstream.ConsumerInfo{NumPending: c.s.left(c.next), Delivered: jetstream.SequenceInfo{Consumer: c.read}}
		return nil
	})
	return info, err
}

func (c *roughConsumer) CachedInfo() *jetstream.ConsumerInfo {
	return &jetstream.ConsumerInfo{NumPending: c.left, Delivered: jetstream.SequenceInfo{Stream: c.next - 1}}
}

func (c *roughConsumer) Messages(...jetstream.PullMessagesOpt) (jetstream.MessagesContext, error) {
	return &roughMessages{c: c}, nil
}

type roughMessages struct {
	jetstream.MessagesContext
	c *roughConsumer
}

func (m *roughMessages) Stop() {}

// Next ignores its options: the context is that of the consumer.
func (m *roughMessages) Next(...jetstream.NextOpt) (jetstream.Msg, error) {
	c, s := m.c, m.c.s
	for {
		if s.chance(100) {
			return nil, jetstream.ErrNoHeartbeat
		}
		lost := s.chance(100) // the next message, on its way
		s.mu.Lock()
		for ; !s.down && c.next <= uint64(len(s.log)); c.next++ {
			if found := s.log[c.next-1]; found != nil {
				if c.read++; lost {
					lost = false
					continue
				}
				read := *found
				c.next++
				read.left, read.number = s.left(c.next), c.read
				s.mu.Unlock()
				return &read, nil
			}
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-time.After(pullTimeout):
			return nil, context.DeadlineExceeded
		case <-c.ctx.Done():
			return nil, c.ctx.Err()
		}
	}
}

// roughBucket is the worker's bucket.
type roughBucket struct {
	jetstream.KeyValue
	s *rough
}

type roughValue struct {
	jetstream.KeyValueEntry
	value []byte
	rev   uint64
}

func (v roughValue) Value() []byte    { return v.value }
func (v roughValue) Revision() uint64 { return v.rev }

func (b roughBucket) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	var v roughValue
	err := b.s.request(ctx, func() error {
		if v = (roughValue{value: b.s.values[key], rev: b.s.revs[key]}); v.rev == 0 {
			return jetstream.ErrKeyNotFound
		}
		return nil
	})
	return v, err
}

func (b roughBucket) Update(ctx context.Context, key string, value []byte, rev uint64) (written uint64, err error) {
	s := b.s
	err = s.request(ctx, func() error {
		if s.revs[key] != rev {
			return jetstream.ErrKeyRevisionMismatch
		}
		s.rev++
		written = s.rev
		s.values[key], s.revs[key] = value, written
		s.wrote(key, value)
		return nil
	})
	return written, err
}
