package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event"
)

// subscribeRole reads the headers alone: they decide whether an event triggers, and most records trigger nothing. It begins with the events
// that are published after its consumer was made, so that an upgrade does not trigger for a day of history.
func subscribeRole() role {
	return role{
		name: roleSubscribe, stream: streamEvents,
		filter: prefixEvents + everythingElse, maxAckPending: 4 * pullBatch, headersOnly: true, fromNow: true,
	}
}

// Subscribe calls serve in each term of this replica as the worker, until ctx ends. The context of serve ends with the term; serve should
// not return before.
//
// Events accepted since the first start are handed out until they are acknowledged, over any restart, in stream order, with the same rules
// as by Events. A record is read from its headers: its Event has the object, the reason, the severity, the time and the revision, and no
// other metadata. It has a message only for a POSTed failure, the beginning of it. A message that is no event, of which Events makes a dead
// letter, is handed out as a record of no object.
func (b *Bus) Subscribe(ctx context.Context, serve func(ctx context.Context, events event.Reader) error) error {
	b.serveOne(ctx, subscribeRole(), func(ctx context.Context, c *consumer) error {
		err := serve(ctx, &reader{consumer: c})
		if err == nil && ctx.Err() == nil {
			err = errStopped
		}
		return err
	})
	return nil
}

// reader is an event.Reader.
type reader struct {
	consumer *consumer
	// next is the sequence of the last skip.
	next uint64
}

// Skip implements event.Reader. It must not be called while Read runs.
func (r *reader) Skip(ctx context.Context, idle func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	s := r.consumer.bus.streams[streamEvents]
	info, err := s.Info(ctx)
	if err != nil {
		return fmt.Errorf("read stream: %w", err)
	}
	next := info.State.LastSeq + 1
	if next == r.next || !idle() {
		return nil
	}
	if _, err := s.ResetConsumerToSequence(ctx, r.consumer.role.name, next); err != nil {
		return fmt.Errorf("skip events: %w", err)
	}
	r.next = next
	return nil
}

// decodeHeaders reads a message of EVENTS that has no body. As with decodeRecord the subject decides which namespace the event is of.
func decodeHeaders(m *nats.Msg, seq uint64, recheck bool) (*event.Record, error) {
	r, err := recordFromHeaders(m.Header)
	if err != nil || m.Subject != eventSubject(r.Event.InvolvedObject) {
		r = &event.Record{}
	}
	r.Seq, r.Recheck = seq, recheck
	return r, nil
}

// setUpConsumer makes or updates a role's consumer.
func (b *Bus) setUpConsumer(ctx context.Context, r role) error {
	s := b.streams[r.stream]
	cfg := consumerConfig(r)
	if !r.fromNow {
		_, err := s.CreateOrUpdateConsumer(ctx, cfg)
		return err
	}
	// The start sequence is part of the configuration and cannot be changed afterwards.
	cfg.DeliverPolicy = jetstream.DeliverByStartSequencePolicy
	made, err := s.Consumer(ctx, cfg.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		info, infoErr := s.Info(ctx)
		if infoErr != nil {
			return fmt.Errorf("read stream: %w", infoErr)
		}
		cfg.OptStartSeq = info.State.LastSeq + 1
		_, err = s.CreateConsumer(ctx, cfg)
		if !errors.Is(err, jetstream.ErrConsumerExists) {
			return err
		}
		made, err = s.Consumer(ctx, cfg.Durable) // another replica has just made it
	}
	if err != nil {
		return err
	}
	cfg.OptStartSeq = made.CachedInfo().Config.OptStartSeq
	_, err = s.UpdateConsumer(ctx, cfg)
	return err
}
