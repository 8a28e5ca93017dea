// Package e2e proves the invariants of notifier with a real process against a real API server. The tests share one process
// and keep apart by namespace, so they run in parallel; what kills a process is in test/chaos.
package e2e

import (
	"context"
	"testing"

	"notifier/test/env"
)

func TestMain(m *testing.M) { env.Main(m) }

var sharedNotifier = env.Opening(func(ctx context.Context) (*env.Notifier, error) {
	w, err := env.NewWorld(ctx, true)
	if err != nil {
		return nil, err
	}
	return w.Start(ctx, env.NotifierOptions{Args: []string{"--log-level", "debug"}})
})

// stage is what a test plays on: the shared process and a tenant of its own.
type stage struct{ *env.Scene }

// play opens the stage with one tenant.
func play(t *testing.T) *stage {
	t.Helper()
	t.Parallel()
	n, err := sharedNotifier()
	if err != nil {
		t.Fatal(err)
	}
	return &stage{env.NewScene(t, n.World(), n)}
}
