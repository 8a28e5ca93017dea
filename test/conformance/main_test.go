// Package conformance proves that each type of Receiver accepts its sender's requests and no others: requests built by
// package sender, a real notifier, a real API server. It also follows the steps of the documentation.
package conformance

import (
	"context"
	"testing"

	"notifier/test/env"
	"notifier/test/sender"
)

func TestMain(m *testing.M) { env.Main(m) }

// server is the process that the tests share, and the issuer that it uses as Google's.
type server struct {
	notifier *env.Notifier
	google   *sender.Issuer
}

var shared = env.Shared(func(ctx context.Context) (*server, error) {
	google, err := sender.NewIssuer()
	if err != nil {
		return nil, err
	}
	w, err := env.NewSystem(ctx, true)
	if err != nil {
		return nil, err
	}
	n, err := w.Start(ctx, env.NotifierOptions{Args: []string{
		"--log-level", "error", "--trigger-interval", "100ms", "--google-issuer", google.URL,
	}})
	return &server{n, google}, err
})

// fixture is the start of one test: the shared process and a tenant of its own.
type fixture struct {
	*env.Fixture
	google *sender.Issuer
}

// setUp makes the fixture.
func setUp(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	shared, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{env.NewFixture(t, shared.notifier.System(), shared.notifier), shared.google}
}

// issuer starts an issuer of the test's own.
func (s *fixture) issuer() *sender.Issuer {
	s.Helper()
	i, err := sender.NewIssuer()
	s.Must(err)
	s.Cleanup(func() { _ = i.Close() })
	return i
}
