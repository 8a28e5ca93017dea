package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event"
)

const (
	// maxRawDead bounds what is kept of a message that could not be read, maxDeadMessage what is kept of an event's message when
	// the dead letter would not fit otherwise.
	maxRawDead     = 64 << 10
	maxDeadMessage = 16 << 10
)

// sent is the record of one delivery that succeeded. It holds what helps to find it, nothing of what it said.
type sent struct {
	ID       string    `json:"id"`
	Alert    string    `json:"alert"`
	Object   string    `json:"object"`
	Reason   string    `json:"reason"`
	Attempts int       `json:"attempts"`
	Routed   time.Time `json:"routed"`
	Sent     time.Time `json:"sent"`
}

// Sent records that d was sent, and returns when that is on disk. The caller settles d after that, so a delivery that comes
// back after a crash is found to have been sent, unless the crash fell between the destination's answer and the record.
func (b *Bus) Sent(ctx context.Context, d *event.Delivery) error {
	body, err := encodeJSON(sent{
		ID: d.ID, Alert: d.Alert, Object: d.Object(), Reason: d.Event.Reason, Attempts: d.Attempts, Routed: d.Routed, Sent: time.Now().UTC(),
	})
	if err != nil {
		return fmt.Errorf("record sent delivery: %w", err)
	}
	if _, err := b.history.commit(ctx, entry{msg: newMsg(historySubject(d), body), namespace: d.Namespace}); err != nil {
		return fmt.Errorf("record sent delivery: %w", err)
	}
	return nil
}

// WasSent reports whether Sent has recorded d's ID.
func (b *Bus) WasSent(ctx context.Context, d *event.Delivery) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	_, err := b.streams[streamHistory].GetLastMsgForSubject(ctx, historySubject(d))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up sent delivery: %w", err)
	}
	return true, nil
}

// DeadLetter writes d to DEADLETTERS with why it ended there, and returns when that is on disk. The caller settles d after that.
// reason must be safe for the tenant to read.
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
	m, err := deadMessage(d, label, reason)
	if err != nil {
		return err
	}
	_, err = b.publish(ctx, streamDeadLetters, m)
	return err
}

func deadMessage(d *event.Delivery, label, reason string) (*nats.Msg, error) {
	m, err := encodeDelivery(deadSubject(d.Namespace, d.Provider), d.ID+"#dead", d)
	if err != nil {
		return nil, err
	}
	return deadHeaders(m, label, reason), nil
}

// deadLetterRaw keeps the beginning of a message that nobody can handle.
func (b *Bus) deadLetterRaw(ctx context.Context, m *nats.Msg, label, reason string) error {
	raw := newMsg(deadSubject(namespaceOf(m.Subject), ""), m.Data[:min(len(m.Data), maxRawDead)])
	setHeader(raw.Header, headerSubject, m.Subject)
	if id := m.Header.Get(headerID); id != "" {
		raw.Header.Set(headerID, id)
	}
	if _, err := b.publish(ctx, streamDeadLetters, deadHeaders(raw, label, reason)); err != nil {
		return fmt.Errorf("write dead letter: %w", err)
	}
	b.metrics.deadLetters.Inc()
	return nil
}

func deadHeaders(m *nats.Msg, label, reason string) *nats.Msg {
	setHeader(m.Header, headerLabel, label)
	setHeader(m.Header, headerReason, reason)
	setHeader(m.Header, headerFailed, time.Now().UTC().Format(time.RFC3339Nano))
	return m
}
