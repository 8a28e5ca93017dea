// Package conformance proves that each type of Receiver takes what its sender sends and nothing else: requests built by package
// sender, a real notifier, a real API server. It also does what the documentation tells people to do.
package conformance

import (
	"context"
	"sync"
	"testing"
	"time"

	"notifier/test/harness"
	"notifier/test/sender"
	"notifier/test/world"
)

func TestMain(m *testing.M) { harness.Main(m) }

const (
	// openTimeout bounds building and starting everything the first time, testTimeout each test after that.
	openTimeout = 20 * time.Minute
	testTimeout = 2 * time.Minute
)

// stand is the process that the tests share, and the issuer that it takes for Google's.
type stand struct {
	*world.Notifier
	google *sender.Issuer
}

var shared = sync.OnceValues(func() (*stand, error) {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	google, err := sender.NewIssuer()
	if err != nil {
		return nil, err
	}
	w, err := world.New(ctx, true)
	if err != nil {
		return nil, err
	}
	n, err := w.Start(ctx, world.NotifierOptions{Args: []string{
		"--log-level", "error", "--trigger-interval", "100ms", "--google-issuer", google.URL,
	}})
	return &stand{n, google}, err
})

// stage is what a test plays on: the shared process and a tenant of its own.
type stage struct {
	*testing.T
	*stand
	tenant *world.Tenant
	ctx    context.Context
}

// play opens the stage.
func play(t *testing.T) *stage {
	t.Helper()
	t.Parallel()
	shared, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	s := &stage{T: t, stand: shared, ctx: ctx}
	s.tenant, err = shared.World().Tenant(ctx, "tenant-")
	s.must(err)
	return s
}

// must ends the test on an error.
func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// issuer starts an issuer of the test's own.
func (s *stage) issuer() *sender.Issuer {
	s.Helper()
	i, err := sender.NewIssuer()
	s.must(err)
	s.Cleanup(func() { _ = i.Close() })
	return i
}
