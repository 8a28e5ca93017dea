package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"notifier/internal/event"
)

const (
	// maxRawDead bounds the bytes that are kept of a message that could not be read. maxDeadMessage bounds those that are kept of an event's
	// message when the dead letter would not fit otherwise.
	maxRawDead     = 64 << 10
	maxDeadMessage = 16 << 10
)

// DeadLetter writes d to DEADLETTERS with the reason, and returns when that is on disk. The caller acknowledges d after that. reason must
// be safe for the tenant to read.
func (b *Bus) DeadLetter(ctx context.Context, d *event.Delivery, label, reason string) error {
	err := b.deadLetter(ctx, d, label, reason)
	if errors.Is(err, ErrTooLarge) {
		short := *d
		short.Event.Metadata = nil
		if m := short.Event.Message; len(m) > maxDeadMessage {
			short.Event.Message = strings.ToValidUTF8(m[:maxDeadMessage], "")
		}
		err = b.deadLetter(ctx, &short, label, reason)
	}
	if err != nil {
		return fmt.Errorf("write dead letter: %w", err)
	}
	b.metrics.deadLetters.Inc()
	return nil
}

func (b *Bus) deadLetter(ctx context.Context, d *event.Delivery, label, reason string) error {
	m, err := encodeDelivery(deadSubject(d.Namespace, d.Provider), d.Run()+"#dead", d)
	if err != nil {
		return err
	}
	if err := b.durableEvents(ctx, d.Order); err != nil {
		return err
	}
	return b.publishUnlessThere(ctx, streamDeadLetters, deadHeaders(m, label, reason))
}

// deadLetterRaw writes the beginning of a message of a stream that cannot be handled to DEADLETTERS, so that it blocks no other.
func (b *Bus) deadLetterRaw(ctx context.Context, stream string, m *nats.Msg, label, reason string) error {
	b.log.Error("message cannot be handled and becomes a dead letter", "stream", stream, "namespace", namespaceOf(m.Subject),
		"label", label, "reason", reason)
	raw := newMsg(deadSubject(namespaceOf(m.Subject), ""), m.Data[:min(len(m.Data), maxRawDead)])
	setHeader(raw.Header, headerSubject, m.Subject)
	if id := m.Header.Get(headerID); id != "" {
		raw.Header.Set(headerID, id)
	}
	if err := b.publish(ctx, streamDeadLetters, deadHeaders(raw, label, reason)); err != nil {
		return fmt.Errorf("write dead letter: %w", err)
	}
	b.metrics.deadLetters.Inc()
	b.metrics.putAside.WithLabelValues(stream).Inc()
	return nil
}

func deadHeaders(m *nats.Msg, label, reason string) *nats.Msg {
	setHeader(m.Header, headerLabel, label)
	setHeader(m.Header, headerReason, reason)
	setHeader(m.Header, headerFailed, time.Now().UTC().Format(time.RFC3339Nano))
	return m
}
