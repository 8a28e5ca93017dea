package env

import (
	"context"
	"sync"
	"testing"
	"time"
)

const (
	// OpenTimeout bounds building the programs and starting the control plane the first time.
	OpenTimeout = 20 * time.Minute
	// testTimeout bounds each test after that.
	testTimeout = 2 * time.Minute
)

// Scene is one test's.
type Scene struct {
	*testing.T
	// Notifier is the process; nil until a test starts one of its own.
	*Notifier
	World  *World
	Tenant *Tenant
	Ctx    context.Context
}

// Opening returns a function that opens what the tests of a package share, the first time that it is called.
func Opening[T any](open func(ctx context.Context) (T, error)) func() (T, error) {
	return sync.OnceValues(func() (T, error) {
		ctx, cancel := context.WithTimeout(context.Background(), OpenTimeout)
		defer cancel()
		return open(ctx)
	})
}

// NewScene is the scene of a test, with one tenant. The notifier may be nil.
func NewScene(t *testing.T, w *World, n *Notifier) *Scene {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	s := &Scene{T: t, Notifier: n, World: w, Ctx: ctx}
	s.Tenant = s.NewTenant()
	return s
}

// Under is the same scene for a subtest.
func (s *Scene) Under(t *testing.T) *Scene {
	under := *s
	under.T = t
	return &under
}

// Must ends the test on an error.
func (s *Scene) Must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// Start starts a notifier that ends with the test, and waits until it is ready.
func (s *Scene) Start(o NotifierOptions) {
	s.Helper()
	n, err := s.World.Start(s.Ctx, o)
	s.Must(err)
	s.Notifier = n
	s.Cleanup(func() { _ = n.Kill() })
}

// Within bounds a context for a wait that is expected to be short.
func (s *Scene) Within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(s.Ctx, d)
	s.Cleanup(cancel)
	return ctx
}

// NewTenant makes another tenant.
func (s *Scene) NewTenant() *Tenant {
	s.Helper()
	tenant, err := s.World.Tenant(s.Ctx, "tenant-")
	s.Must(err)
	return tenant
}

// NewSink starts a destination of the test's own.
func (s *Scene) NewSink() *Sink {
	s.Helper()
	sink, err := NewSink()
	s.Must(err)
	s.Cleanup(func() { _ = sink.Down() })
	return sink
}

// Receiver makes a Receiver of type github that names the GitRepository "app" of the tenant, which is made as well, and returns its
// path. Fields are added to its spec, each with a leading comma.
func (s *Scene) Receiver(t *Tenant, name, token, fields string) string {
	s.Helper()
	path, err := t.GitHubReceiver(s.Ctx, name, "app", token, fields)
	s.Must(err)
	return path
}

// Push sends a push as GitHub signs it and fails the test unless the answer has the status.
func (s *Scene) Push(path, token string, status int) Response {
	s.Helper()
	resp, err := s.GitHub(s.Ctx, path, token, "push", GitHubPush)
	s.Must(err)
	if resp.Status != status {
		s.Fatalf("webhook: got %d %q, want %d", resp.Status, resp.Body, status)
	}
	return resp
}
