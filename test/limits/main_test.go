// Package limits holds tests that need a notifier of their own: with flags, with few resources, or alone on its cluster so that
// what it costs can be counted. Tests that do not run in parallel have the cluster to themselves; the others start a process that
// serves one namespace only.
package limits

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/harness"
	"notifier/test/load"
	"notifier/test/world"
)

func TestMain(m *testing.M) {
	load.Main()
	harness.Main(m)
}

const (
	// openTimeout bounds building and starting the control plane the first time, testTimeout each test after that.
	openTimeout = 20 * time.Minute
	testTimeout = 2 * time.Minute
)

// The race detector would distort what is measured here; test/e2e has it.
var sharedWorld = sync.OnceValues(func() (*world.World, error) {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	return world.New(ctx, false)
})

// stage is what a test plays on.
type stage struct {
	*testing.T
	*world.Notifier
	world  *world.World
	tenant *world.Tenant
	ctx    context.Context
}

// alone opens the stage of a test that has the cluster to itself; its notifier serves every namespace.
func alone(t *testing.T, args ...string) *stage {
	t.Helper()
	s := open(t)
	s.start(world.NotifierOptions{Args: args})
	return s
}

// scoped opens the stage of a test that runs beside others; its notifier, once started, serves the tenant's namespace only.
func scoped(t *testing.T) *stage {
	t.Helper()
	t.Parallel()
	return open(t)
}

func open(t *testing.T) *stage {
	t.Helper()
	w, err := sharedWorld()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	s := &stage{T: t, world: w, ctx: ctx}
	s.tenant = s.newTenant()
	return s
}

// start starts a notifier that ends with the test, and waits until it is ready.
func (s *stage) start(o world.NotifierOptions) {
	s.Helper()
	n, err := s.world.Start(s.ctx, o)
	s.must(err)
	s.Notifier = n
	s.Cleanup(func() { _ = n.Kill() })
}

// startScoped starts the notifier of a scoped stage.
func (s *stage) startScoped(o world.NotifierOptions) {
	s.Helper()
	o.Args = append([]string{"--watch-all-namespaces=false"}, o.Args...)
	o.Env = append(o.Env, "RUNTIME_NAMESPACE="+s.tenant.Namespace)
	s.start(o)
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
	tenant, err := s.world.Tenant(s.ctx, "tenant-")
	s.must(err)
	return tenant
}

func (s *stage) newSink() *harness.Sink {
	s.Helper()
	sink, err := harness.NewSink()
	s.must(err)
	s.Cleanup(func() { _ = sink.Down() })
	return sink
}

// within bounds a context for a wait that is expected to be short.
func (s *stage) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(s.ctx, d)
	s.Cleanup(cancel)
	return ctx
}

const anyKustomization = `{"kind":"Kustomization","name":"*"}`

// receiver makes a Receiver for GitHub on a GitRepository of the same name, which is made as well, and returns its path. Fields
// are added to its spec, each with a leading comma.
func (s *stage) receiver(t *world.Tenant, name, token, fields string) string {
	s.Helper()
	s.must(t.Object(s.ctx, "GitRepository", name, nil, ""))
	path, err := t.Receiver(s.ctx, name, token, githubSpec(name)[:len(githubSpec(name))-1]+fields+"}")
	s.must(err)
	return path
}

func githubSpec(name string) string {
	return `{"type":"github","secretRef":{"name":"` + name + `-token"},
		"resources":[{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"GitRepository","name":"` + name + `"}]}`
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

// failure is a failure of the tenant's Kustomization "app" as its controller would POST it.
func (s *stage) failure(message string) world.Response {
	s.Helper()
	event, err := s.tenant.Event(s.ctx, "Kustomization", "app", "error", "BuildFailed", message, "main@sha1:"+message)
	s.must(err)
	resp, err := s.Post(s.ctx, event)
	s.must(err)
	return resp
}

// accepted POSTs a failure and fails the test unless it is accepted.
func (s *stage) accepted(message string) {
	s.Helper()
	if resp := s.failure(message); resp.Status != http.StatusAccepted {
		s.Fatalf("POST of an event: got %d %q, want 202", resp.Status, resp.Body)
	}
}

// ready waits for the condition Ready.
func (s *stage) ready(kind, name string, status metav1.ConditionStatus, reason string) string {
	s.Helper()
	obj, err := s.tenant.WaitCondition(s.ctx, kind, name, "Ready", status, reason)
	s.must(err)
	conditions, err := world.Conditions(obj)
	s.must(err)
	for _, c := range conditions {
		if c.Type == "Ready" {
			return c.Message
		}
	}
	return ""
}

// showLog shows the end of the notifier's log when the test has failed.
func (s *stage) showLog() {
	if s.Failed() {
		lines := strings.Split(strings.TrimSpace(s.Logs()), "\n")
		s.Logf("the log ends with:\n%s", strings.Join(lines[max(0, len(lines)-60):], "\n"))
	}
}
