// Package limits has tests that need a notifier of their own: with flags, with few resources, or alone on its cluster so
// that its cost can be counted. Tests that do not run in parallel have the cluster to themselves; the others start a
// process that serves one namespace only.
package limits

import (
	"context"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
	"notifier/test/load"
)

func TestMain(m *testing.M) {
	load.Main()
	env.Main(m)
}

// The race detector would distort the measurements here; test/e2e uses it.
var sharedSystem = env.Shared(func(ctx context.Context) (*env.System, error) { return env.NewSystem(ctx, false) })

// fixture is the start of one test.
type fixture struct{ *env.Fixture }

// alone returns the fixture of a test that has the cluster to itself; its notifier serves every namespace.
func alone(t *testing.T, args ...string) *fixture {
	t.Helper()
	s := setUp(t)
	s.Start(env.NotifierOptions{Args: args})
	return s
}

// scoped returns the fixture of a test that runs beside others; its notifier, once started, serves the tenant's
// namespace only.
func scoped(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	return setUp(t)
}

func setUp(t *testing.T) *fixture {
	t.Helper()
	w, err := sharedSystem()
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{env.NewFixture(t, w, nil)}
}

// startScoped starts the notifier of a scoped fixture.
func (s *fixture) startScoped(o env.NotifierOptions) {
	s.Helper()
	o.Args = append([]string{"--watch-all-namespaces=false"}, o.Args...)
	o.Env = append(o.Env, "RUNTIME_NAMESPACE="+s.Tenant.Namespace)
	s.Start(o)
}

// failure POSTs a failure of the tenant's Kustomization "app" as its controller would.
func (s *fixture) failure(message string) env.Response {
	s.Helper()
	event, err := s.Tenant.Event(s.Ctx, "Kustomization", "app", "error", "BuildFailed", message, "main@sha1:"+message)
	s.Must(err)
	resp, err := s.Post(s.Ctx, event)
	s.Must(err)
	return resp
}

// accepted POSTs a failure and fails the test unless it is accepted.
func (s *fixture) accepted(message string) {
	s.Helper()
	if resp := s.failure(message); resp.Status != http.StatusAccepted {
		s.Fatalf("POST of an event: got %d %q, want 202", resp.Status, resp.Body)
	}
}

// ready waits for the condition that reports whether the object does its work, and returns its message.
func (s *fixture) ready(kind, name string, status metav1.ConditionStatus, reason string) string {
	s.Helper()
	return s.Condition(s.Tenant, kind, name, env.Outcome(kind), status, reason).Message
}
