package env

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// OpenTimeout bounds building the programs and starting the control plane the first time.
	OpenTimeout = 20 * time.Minute
	// testTimeout bounds each test after that.
	testTimeout = 5 * time.Minute
)

// Fixture is the start of one test: the system, a tenant of its own, a process and a deadline.
type Fixture struct {
	*testing.T
	// Notifier is the process; nil until a test starts one of its own.
	*Notifier
	System *System
	Tenant *Tenant
	Ctx    context.Context
}

// Shared returns a function that opens the resources that a package's tests share, at its first call.
func Shared[T any](open func(ctx context.Context) (T, error)) func() (T, error) {
	return sync.OnceValues(func() (T, error) {
		ctx, cancel := context.WithTimeout(context.Background(), OpenTimeout)
		defer cancel()
		return open(ctx)
	})
}

// SetUp returns the fixture of a test that runs in parallel with others, on their shared notifier.
func SetUp(t *testing.T, shared func() (*Notifier, error)) *Fixture {
	t.Helper()
	t.Parallel()
	n, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return NewFixture(t, n.system, n)
}

// NewFixture returns the fixture of a test, with one tenant. The notifier may be nil.
func NewFixture(t *testing.T, w *System, n *Notifier) *Fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	s := &Fixture{T: t, Notifier: n, System: w, Ctx: ctx}
	s.Tenant = s.NewTenant()
	return s
}

// Under returns the same fixture for a subtest.
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

// EndWith has a notifier end with the test. A failed test shows the end of its log.
func EndWith(t *testing.T, n *Notifier) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the notifier's log ends with:\n%s", lastLines(n.Logs(), 60))
		}
		_ = n.Kill()
	})
}

// Start starts a notifier that ends with the test, and waits until it is ready. A failed test shows the end of its log.
func (s *Fixture) Start(o NotifierOptions) {
	s.Helper()
	n, err := s.System.Start(s.Ctx, o)
	s.Must(err)
	s.Notifier = n
	EndWith(s.T, n)
}

// Within returns a context for a wait that is expected to be short.
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

// AlertedSink makes the Kustomization "app" of the tenant, and a sink that receives the events of all its
// Kustomizations.
func (s *Fixture) AlertedSink() *Sink {
	s.Helper()
	sink := s.NewSink()
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.Must(s.Tenant.Alert(s.Ctx, "all", "generic", sink.URL("/"), AnyKustomization))
	return sink
}

// Receiver makes a Receiver of type github and the GitRepository "app" of the tenant, its target, and returns its path.
// fields is added to the Receiver's spec, each field with a leading comma.
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

// Read reads an object of the tenant.
func (s *Fixture) Read(t *Tenant, kind, name string) *unstructured.Unstructured {
	s.Helper()
	obj, err := t.Get(s.Ctx, kind, name)
	s.Must(err)
	return obj
}

// Condition waits until a condition has the status and, unless it is empty, the reason, and returns it.
func (s *Fixture) Condition(t *Tenant, kind, name, condition string, status metav1.ConditionStatus, reason string) metav1.Condition {
	s.Helper()
	obj, err := t.WaitCondition(s.Ctx, kind, name, condition, status, reason)
	s.Must(err)
	all, err := Conditions(obj)
	s.Must(err)
	return *meta.FindStatusCondition(all, condition)
}

// Requested waits for a reconcile request of the object that is stamped no earlier than since, and returns its stamp.
func (s *Fixture) Requested(t *Tenant, kind, name string, since time.Time) time.Time {
	s.Helper()
	at, err := t.WaitRequested(s.Ctx, kind, name, since)
	s.Must(err)
	return at
}

// Trigger sends a webhook without a signature on the path, which must be accepted, and waits for the reconcile request
// of the tenant's object.
func (s *Fixture) Trigger(path, kind, name string) {
	s.Helper()
	sent := time.Now()
	s.Webhook(path)
	s.Requested(s.Tenant, kind, name, sent)
}

// Webhook sends a webhook without a signature on the path, which must be accepted.
func (s *Fixture) Webhook(path string) {
	s.Helper()
	resp, err := s.Do(s.Ctx, http.MethodPost, s.HooksURL+path, nil, []byte("{}"))
	s.Must(err)
	if resp.Status != http.StatusOK {
		s.Fatalf("webhook: got %d %q, want 200", resp.Status, resp.Body)
	}
}

// Path waits until a Receiver is ready and returns its path.
func (s *Fixture) Path(t *Tenant, receiver string) string {
	s.Helper()
	path, err := t.ReceiverPath(s.Ctx, receiver)
	s.Must(err)
	return path
}

// PostEvent POSTs an event about an object of the tenant as its controller would, and ends the test unless it is accepted.
func (s *Fixture) PostEvent(t *Tenant, kind, name, severity, reason, message, revision string) {
	s.Helper()
	event, err := t.Event(s.Ctx, kind, name, severity, reason, message, revision)
	s.Must(err)
	resp, err := s.Post(s.Ctx, event)
	s.Must(err)
	if resp.Status != http.StatusAccepted {
		s.Fatalf("POST of an event: got %d %q, want 202", resp.Status, resp.Body)
	}
}
