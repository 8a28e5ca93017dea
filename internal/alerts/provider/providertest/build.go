package providertest

import (
	"testing"

	"notifier/internal/alerts/provider"
)

// NewSender returns a Sender of a type, which is closed at the end of the test.
func NewSender[S provider.Sender](t *testing.T, build func(provider.Config) (S, error), cfg provider.Config) S {
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
