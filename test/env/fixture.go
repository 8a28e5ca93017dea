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

// Fixture is what one test starts from: the system, a tenant of its own, a process and a time by which it has to end.
type Fixture struct {
	*testing.T
	// Notifier is the process; nil until a test starts one of its own.
	*Notifier
	System *System
	Tenant *Tenant
	Ctx    context.Context
}

// Shared returns a function that makes what the tests of a package share, the first time that it is called.
func Shared[T any](open func(ctx context.Context) (T, error)) func() (T, error) {
	return sync.OnceValues(func() (T, error) {
		ctx, cancel := context.WithTimeout(context.Background(), OpenTimeout)
		defer cancel()
		return open(ctx)
	})
}

// NewFixture is the fixture of a test, with one tenant. The notifier may be nil.
func NewFixture(t *testing.T, w *System, n *Notifier) *Fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	s := &Fixture{T: t, Notifier: n, System: w, Ctx: ctx}
	s.Tenant = s.NewTenant()
	return s
}

// Under is the same fixture for a subtest.
func (s *Fixture) Under(t *testing.T) *Fixture {
	under := *s
	under.T = t
	return &under
}

// Must ends the test on an error.
func (s *Fixture) Must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// Start starts a notifier that ends with the test, and waits until it is ready.
func (s *Fixture) Start(o NotifierOptions) {
	s.Helper()
	n, err := s.System.Start(s.Ctx, o)
	s.Must(err)
	s.Notifier = n
	s.Cleanup(func() { _ = n.Kill() })
}

// Within bounds a context for a wait that is expected to be short.
func (s *Fixture) Within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(s.Ctx, d)
	s.Cleanup(cancel)
	return ctx
}

// NewTenant makes another tenant.
func (s *Fixture) NewTenant() *Tenant {
	s.Helper()
	tenant, err := s.System.Tenant(s.Ctx, "tenant-")
	s.Must(err)
	return tenant
}

// NewSink starts a destination of the test's own.
func (s *Fixture) NewSink() *Sink {
	s.Helper()
	sink, err := NewSink()
	s.Must(err)
	s.Cleanup(func() { _ = sink.Down() })
	return sink
}

// Receiver makes a Receiver of type github that names the GitRepository "app" of the tenant, which is made as well, and returns its
// path. Fields are added to its spec, each with a leading comma.
func (s *Fixture) Receiver(t *Tenant, name, token, fields string) string {
	s.Helper()
	path, err := t.GitHubReceiver(s.Ctx, name, "app", token, fields)
	s.Must(err)
	return path
}

// Push sends a push as GitHub signs it and fails the test unless the answer has the status.
func (s *Fixture) Push(path, token string, status int) Response {
	s.Helper()
	resp, err := s.GitHub(s.Ctx, path, token, "push", GitHubPush)
	s.Must(err)
	if resp.Status != status {
		s.Fatalf("webhook: got %d %q, want %d", resp.Status, resp.Body, status)
	}
	return resp
}
