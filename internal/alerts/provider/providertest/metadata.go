package providertest

import (
	"context"
	"maps"

	"notifier/internal/alerts/provider"
)

// BuildWith is provider.Builder for Senders that WithMetadata completes.
func BuildWith[S provider.Sender](
	build func(provider.Config) (S, error), metadata map[string]string,
) func(provider.Config) (provider.Sender, error) {
	return provider.Builder(func(cfg provider.Config) (provider.Sender, error) {
		s, err := build(cfg)
		return WithMetadata(s, metadata), err
	})
}

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
