package bus

import (
	"context"
	"fmt"

	"golang.org/x/time/rate"

	"notifier/internal/event/view"
	"notifier/internal/fair"
)

const (
	// webhookShare divides the budget of WEBHOOKS: within webhooksMaxAge one process writes at most the quotient with results of one
	// namespace. So a namespace, however many Receivers it has, does not push out the results of others.
	webhookShare = 8
	// maxWebhookShares bounds the namespaces whose share is counted.
	maxWebhookShares = 8192
	// storedOverhead is the number of bytes that the server stores of a message besides its subject and its data.
	storedOverhead = 64
)

// newWebhookShares returns the limiters of the bytes that each namespace may write to WEBHOOKS: one half of its share at once, and the
// other over webhooksMaxAge.
func newWebhookShares(budget int64) *fair.Limiters[string] {
	half := budget / webhookShare / 2
	return fair.NewLimiters[string](rate.Limit(float64(half)/webhooksMaxAge.Seconds()), int(half), maxWebhookShares)
}

// RecordWebhooks writes the results of webhooks of one Receiver to WEBHOOKS, as lines of JSON in one message, the newest last. It returns
// when the server has the message, which is not synced. ErrFull says that the namespace has used up its share for now. After another error
// the results may or may not be stored, and written again they may be there twice.
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
	m := newMsg(webhookSubject(namespace, receiver), lines)
	if !b.webhookShares.AllowN(namespace, m.Size()+storedOverhead) {
		return fmt.Errorf("record webhooks: the namespace's share is used up: %w", ErrFull)
	}
	if err := b.publish(ctx, streamWebhooks, m); err != nil {
		return fmt.Errorf("record webhooks: %w", err)
	}
	return nil
}
