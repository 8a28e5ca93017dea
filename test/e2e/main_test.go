// Package e2e proves the invariants of notifier with a real process against a real API server. The tests share one process
// and keep apart by namespace, so they run in parallel; what kills a process is in test/chaos.
package e2e

import (
	"context"
	"testing"

	"notifier/test/harness"
	"notifier/test/scene"
	"notifier/test/world"
)

func TestMain(m *testing.M) { harness.Main(m) }

var sharedNotifier = scene.Opening(func(ctx context.Context) (*world.Notifier, error) {
	w, err := world.New(ctx, true)
	if err != nil {
		return nil, err
	}
	return w.Start(ctx, world.NotifierOptions{Args: []string{"--log-level", "debug"}})
})

// stage is what a test plays on: the shared process and a tenant of its own.
type stage struct{ *scene.Scene }

// play opens the stage with one tenant.
func play(t *testing.T) *stage {
	t.Helper()
	t.Parallel()
	n, err := sharedNotifier()
	if err != nil {
		t.Fatal(err)
	}
	return &stage{scene.New(t, n.World(), n)}
}
