package bus

import (
	"context"
	"fmt"

	"notifier/internal/event/view"
)

// RecordWebhooks writes the results of webhooks of one Receiver to WEBHOOKS, as lines of JSON in one message, the newest last. It returns
// when the server has the message, which is not synced. After an error the results may or may not be stored, and written again they may be
// there twice.
func (b *Bus) RecordWebhooks(ctx context.Context, namespace, receiver string, ws []view.Webhook) error {
	if len(ws) == 0 {
		return nil
	}
	var lines []byte
	for i := range ws {
		line, err := encodeJSON(&ws[i])
		if err != nil {
			return fmt.Errorf("record webhooks: %w", err)
		}
		lines = append(append(lines, line...), '\n')
	}
	if err := b.publish(ctx, streamWebhooks, newMsg(webhookSubject(namespace, receiver), lines)); err != nil {
		return fmt.Errorf("record webhooks: %w", err)
	}
	return nil
}
