// Package e2e proves the invariants of notifier with a real process against a real API server. The tests share one process
// and keep apart by namespace, so they run in parallel; what kills a process is in test/chaos.
package e2e

import (
	"context"
	"sync"
	"testing"
	"time"

	"notifier/test/harness"
	"notifier/test/world"
)

func TestMain(m *testing.M) { harness.Main(m) }

// testTimeout bounds each test.
const testTimeout = 2 * time.Minute

// openTimeout bounds building and starting everything the first time.
const openTimeout = 20 * time.Minute

var sharedNotifier = sync.OnceValues(func() (*world.Notifier, error) {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	w, err := world.New(ctx, true)
	if err != nil {
		return nil, err
	}
	return w.Start(ctx, world.NotifierOptions{Args: []string{"--log-level", "debug"}})
})

// stage is what a test plays on: the shared process and a tenant of its own.
type stage struct {
	*testing.T
	*world.Notifier
	tenant *world.Tenant
	ctx    context.Context
}

// play opens the stage with one tenant.
func play(t *testing.T) *stage {
	t.Helper()
	t.Parallel()
	n, err := sharedNotifier()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	s := &stage{T: t, Notifier: n, ctx: ctx}
	s.tenant = s.newTenant()
	return s
}

// must ends the test on an error.
func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *stage) newTenant() *world.Tenant {
	s.Helper()
	tenant, err := s.World().Tenant(s.ctx, "tenant-")
	s.must(err)
	return tenant
}

// newSink starts a destination of the test's own.
func (s *stage) newSink() *harness.Sink {
	s.Helper()
	sink, err := harness.NewSink()
	s.must(err)
	s.Cleanup(func() { _ = sink.Down() })
	return sink
}

// receiver makes a Receiver that names the GitRepository "app" of its tenant, which is made as well, and returns its path.
// Fields are added to its spec, each with a leading comma.
func (s *stage) receiver(t *world.Tenant, name, token, fields string) string {
	s.Helper()
	s.must(t.Object(s.ctx, "GitRepository", "app", nil, ""))
	path, err := t.Receiver(s.ctx, name, token, `{"type":"github","secretRef":{"name":"`+name+`-token"},
		"resources":[{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"GitRepository","name":"app"}]`+fields+`}`)
	s.must(err)
	return path
}

// push sends a push as GitHub signs it and fails the test unless the answer has the status.
func (s *stage) push(path, token string, status int) world.Response {
	s.Helper()
	resp, err := s.GitHub(s.ctx, path, token, "push", world.GitHubPush)
	s.must(err)
	if resp.Status != status {
		s.Fatalf("webhook: got %d %q, want %d", resp.Status, resp.Body, status)
	}
	return resp
}
