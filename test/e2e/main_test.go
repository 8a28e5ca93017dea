// Package e2e proves the invariants of notifier with a real process against a real API server. The tests share one
// process and use namespaces of their own, so they run in parallel; the tests that kill a process are in test/chaos.
package e2e

import (
	"context"
	"testing"

	"notifier/test/env"
)

// Each of the tests starts several notifiers: with eight at a time a dozen would start at once.
func TestMain(m *testing.M) { env.MainParallel(m, 4) }

var sharedNotifier = env.Shared(func(ctx context.Context) (*env.Notifier, error) {
	w, err := env.NewSystem(ctx, true)
	if err != nil {
		return nil, err
	}
	if err := w.AddProviderType(ctx, "carrier-pigeon"); err != nil {
		return nil, err
	}
	return w.Start(ctx, env.NotifierOptions{Args: []string{"--log-level", "debug"}})
})

// fixture is the start of one test: the shared process and a tenant of its own.
type fixture struct{ *env.Fixture }

// setUp makes the fixture with one tenant.
func setUp(t *testing.T) *fixture {
	t.Helper()
	return &fixture{env.SetUp(t, sharedNotifier)}
}
