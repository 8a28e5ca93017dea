// Package conformance proves that each type of Receiver takes what its sender sends and nothing else: requests built by package
// sender, a real notifier, a real API server. It also does what the documentation tells people to do.
package conformance

import (
	"context"
	"testing"

	"notifier/test/env"
	"notifier/test/sender"
)

func TestMain(m *testing.M) { env.Main(m) }

// stand is the process that the tests share, and the issuer that it takes for Google's.
type stand struct {
	notifier *env.Notifier
	google   *sender.Issuer
}

var shared = env.Opening(func(ctx context.Context) (*stand, error) {
	google, err := sender.NewIssuer()
	if err != nil {
		return nil, err
	}
	w, err := env.NewWorld(ctx, true)
	if err != nil {
		return nil, err
	}
	n, err := w.Start(ctx, env.NotifierOptions{Args: []string{
		"--log-level", "error", "--trigger-interval", "100ms", "--google-issuer", google.URL,
	}})
	return &stand{n, google}, err
})

// stage is what a test plays on: the shared process and a tenant of its own.
type stage struct {
	*env.Scene
	google *sender.Issuer
}

// play opens the stage.
func play(t *testing.T) *stage {
	t.Helper()
	t.Parallel()
	shared, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return &stage{env.NewScene(t, shared.notifier.World(), shared.notifier), shared.google}
}

// issuer starts an issuer of the test's own.
func (s *stage) issuer() *sender.Issuer {
	s.Helper()
	i, err := sender.NewIssuer()
	s.Must(err)
	s.Cleanup(func() { _ = i.Close() })
	return i
}
