package bus

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/bus/browse"
	"notifier/internal/event/view"
)

// resultsLate is the longest time from the answer to a webhook until its result is stored: several results are stored together.
const resultsLate = 2 * time.Minute

// ListWebhooks returns the results of webhooks for a namespace's Receivers, newest first.
func (b *Bus) ListWebhooks(ctx context.Context, namespace string, q view.Query) (view.Page[view.Webhook], error) {
	return reading(ctx, b.reads, "list webhooks", func(ctx context.Context) (page view.Page[view.Webhook], err error) {
		receiver := anyToken
		if q.Receiver != "" {
			receiver = token(q.Receiver)
		}
		source := &browse.Source[webhookItem]{Decode: webhookItems, Late: resultsLate}
		if source.Walker, err = b.reads.walker(ctx, streamWebhooks, namespace, prefixWebhook+token(namespace)+"."+receiver); err != nil {
			return page, err
		}
		list := browse.List[webhookItem]{
			Name: "webhooks " + namespace, Sources: []*browse.Source[webhookItem]{source},
			Time: func(w webhookItem) time.Time { return w.Time }, ID: func(w webhookItem) string { return w.place },
			Take: func(w webhookItem) bool { return w.Namespace == namespace && q.SelectsWebhook(&w.Webhook) },
		}
		items, err := list.Page(ctx, q)
		page = view.Page[view.Webhook]{Items: make([]view.Webhook, len(items.Items)), Next: items.Next}
		for i, w := range items.Items {
			page.Items[i] = w.Webhook
		}
		return page, err
	})
}

// webhookItem is a result with its place: results have no identity of their own, and two of them may be equal.
type webhookItem struct {
	view.Webhook
	place string
}

func webhookItems(m *jetstream.RawStreamMsg) (items []webhookItem) {
	for i, w := range decodeLines[view.Webhook](m.Data) {
		items = append(items, webhookItem{Webhook: w, place: fmt.Sprintf("%d.%d", m.Sequence, i)})
	}
	return items
}

// webhookViews returns the results of a message that are of the namespace of its subject.
func webhookViews(m *jetstream.RawStreamMsg) (webhooks []view.Webhook) {
	for _, w := range webhookItems(m) {
		if w.Namespace == namespaceOf(m.Subject) {
			webhooks = append(webhooks, w.Webhook)
		}
	}
	return webhooks
}
