package providertest

import (
	"context"
	"io"
	"maps"

	"notifier/internal/alerts/provider"
)

// WithMetadata returns a Sender that adds the missing keys of metadata to each notification, for types that take no event without
// them.
func WithMetadata(s provider.Sender, metadata map[string]string) provider.Sender {
	return &completed{s, metadata}
}

type completed struct {
	provider.Sender
	metadata map[string]string
}

func (c *completed) Send(ctx context.Context, n provider.Notification) error {
	all := maps.Clone(c.metadata)
	maps.Copy(all, n.Event.Metadata)
	n.Event.Metadata = all
	return c.Sender.Send(ctx, n)
}

// Close closes the wrapped Sender, which must be an io.Closer.
func (c *completed) Close() error { return c.Sender.(io.Closer).Close() }
