package bus

import (
	"context"
	"slices"
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
		source := &browse.Source[view.Webhook]{Decode: webhookViews, Late: resultsLate}
		if source.Walker, err = b.reads.walker(ctx, streamWebhooks, namespace, prefixWebhook+token(namespace)+"."+receiver); err != nil {
			return page, err
		}
		list := browse.List[view.Webhook]{
			Name: "webhooks " + namespace, Sources: []*browse.Source[view.Webhook]{source},
			Time: view.Webhook.At, Take: func(w view.Webhook) bool { return w.SelectedBy(&q) },
		}
		return list.Page(ctx, q)
	})
}

// webhookViews returns the results of a message that are of the namespace of its subject.
func webhookViews(m *jetstream.RawStreamMsg) []view.Webhook {
	namespace := namespaceOf(m.Subject)
	return slices.DeleteFunc(decodeLines[view.Webhook](m.Data), func(w view.Webhook) bool { return w.Namespace != namespace })
}
