package providertest

import (
	"io"
	"testing"

	"notifier/internal/alerts/provider"
)

// Build is a type's New as a Subject takes it: with an error there is no Sender, not even a nil one of the type.
func Build[S provider.Sender](build func(provider.Config) (S, error)) func(provider.Config) (provider.Sender, error) {
	return func(cfg provider.Config) (provider.Sender, error) {
		s, err := build(cfg)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

// NewSender returns a Sender of a type, which is closed with the test.
func NewSender[S interface {
	provider.Sender
	io.Closer
}](t *testing.T, build func(provider.Config) (S, error), cfg provider.Config) S {
	t.Helper()
	s, err := build(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// SendAll sends notifications one after the other.
func SendAll(t *testing.T, s provider.Sender, notifications ...provider.Notification) {
	t.Helper()
	for _, n := range notifications {
		if err := s.Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
}
