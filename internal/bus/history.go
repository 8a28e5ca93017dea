package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event"
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
