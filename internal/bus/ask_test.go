package bus

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/event"
	"notifier/internal/event/view"
)

// requests is a worker's side that keeps the requests it was asked to serve.
type requests struct {
	namespace string
	replay    view.ReplayRequest
	test      view.TestRequest
	err       error
}

func (r *requests) Replay(_ context.Context, namespace string, q view.ReplayRequest) (view.ReplayResult, error) {
	r.namespace, r.replay = namespace, q
	return view.ReplayResult{Replayed: 3, More: true, NotReplayed: 1, Refused: map[string]string{"x": "no"}}, r.err
}

func (r *requests) Test(_ context.Context, namespace string, q view.TestRequest) (view.TestResult, error) {
	r.namespace, r.test = namespace, q
	if q.Value == "panic" {
		panic("secret")
	}
	return view.TestResult{DeliveryID: "d"}, r.err
}

// answering has the bus answer for r, as the worker whose fence is owned.
func answering(t *testing.T, b *Bus, r Requests, owned func() bool) (stop func()) {
	t.Helper()
	before := b.nc.NumSubscriptions()
	stop = start(t, func(ctx context.Context) error { return b.Answer(event.WithFence(ctx, owned), r) })
	for b.nc.NumSubscriptions() == before && testContext(t).Err() == nil {
		must(t, b.nc.Flush())
	}
	must(t, b.nc.Flush())
	return stop
}

// Fails when a request or its result does not cross as it is, when an error's safe text is lost or another error's text is shown, or when a
// request waits although there is no worker.
func TestTheWorkerIsAskedFromAnyReplica(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	if _, err := b.AskTest(ctx, "team", view.TestRequest{}); !errors.Is(err, view.ErrNoWorker) {
		t.Errorf("without a worker: %v", err)
	}
	r := &requests{}
	stop := answering(t, b, r, func() bool { return true })
	asked := view.ReplayRequest{IDs: []string{"a<b"}, Provider: "slack", State: view.StateDead}
	result, err := b.AskReplay(ctx, "my.team", asked)
	must(t, err)
	if diff := cmp.Diff(view.ReplayResult{Replayed: 3, More: true, NotReplayed: 1, Refused: map[string]string{"x": "no"}}, result); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(asked, r.replay); diff != "" || r.namespace != "my.team" {
		t.Errorf("asked in %q (-want +got):\n%s", r.namespace, diff)
	}
	test, err := b.AskTest(ctx, "team", view.TestRequest{Provider: "slack", Value: "v"})
	if err != nil || test.DeliveryID != "d" || r.test.Value != "v" {
		t.Errorf("test: %+v (%v)", test, err)
	}
	over := event.NewError(event.Retry, "rate", "in ten seconds", nil)
	over.RetryAfter = 10 * time.Second
	for _, tc := range []struct {
		err   error
		class event.Class
		text  string
		after time.Duration
	}{
		{event.NewError(event.Permanent, "limited", "wait a minute", errors.New("secret")), event.Permanent, "wait a minute", 0},
		{over, event.Retry, "in ten seconds", 10 * time.Second},
		{errors.New("secret"), event.Retry, "the worker could not do it", 0},
	} {
		r.err = tc.err
		_, err := b.AskTest(ctx, "team", view.TestRequest{})
		if e, ok := errors.AsType[*event.Error](err); !ok || e.Class != tc.class || e.Reason != tc.text || e.RetryAfter != tc.after {
			t.Errorf("%v is told as %v", tc.err, err)
		}
	}
	if _, err := b.AskTest(ctx, "team", view.TestRequest{Value: "panic"}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a panic is told as %v", err)
	}
	r.err = view.ErrNotFound
	if _, err := b.AskTest(ctx, "team", view.TestRequest{}); !errors.Is(err, view.ErrNotFound) {
		t.Errorf("not found is told as %v", err)
	}
	large := view.ReplayRequest{IDs: []string{strings.Repeat("x", maxAsk)}}
	if _, err := b.AskReplay(ctx, "team", large); event.AsError(err).Label != "too_large" {
		t.Errorf("a large request: %v", err)
	}
	stop()
	if _, err := b.AskTest(ctx, "team", view.TestRequest{}); !errors.Is(err, view.ErrNoWorker) {
		t.Errorf("after the term: %v", err)
	}
}

// Fails when a worker whose term is over serves a request, or when a malformed request stops the answering.
func TestAWorkerWhoseTermIsOverDoesNothing(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	r := &requests{}
	var owned atomic.Bool
	answering(t, b, r, owned.Load)
	ctx, cancel := context.WithTimeout(testContext(t), 2*followRetry/10)
	defer cancel()
	_, err := b.AskTest(ctx, "team", view.TestRequest{Provider: "slack"})
	if !errors.Is(err, context.DeadlineExceeded) || r.namespace != "" {
		t.Errorf("asked for %q: %v", r.namespace, err)
	}
	owned.Store(true)
	for _, body := range []string{"", "{", "[]", `{"namespace":""}`, `{"namespace":1}`, strings.Repeat(" ", maxAsk+1)} {
		must(t, b.nc.PublishRequest(subjectAsk+askTest, b.nc.NewInbox(), []byte(body)))
		must(t, b.nc.PublishRequest(subjectAsk+"other", b.nc.NewInbox(), []byte(body)))
	}
	if _, err := b.AskTest(testContext(t), "team", view.TestRequest{Provider: "slack"}); err != nil || r.namespace != "team" {
		t.Errorf("asked for %q: %v", r.namespace, err)
	}
}

// slowly is a worker's side whose replays of one namespace last until the test ends them.
type slowly struct {
	requests
	slow  string
	began chan struct{}
	end   chan struct{}
}

func (s *slowly) Replay(ctx context.Context, namespace string, _ view.ReplayRequest) (view.ReplayResult, error) {
	if namespace == s.slow {
		s.began <- struct{}{}
		select {
		case <-s.end:
		case <-ctx.Done():
		}
	}
	return view.ReplayResult{Replayed: 1}, nil
}

// T6. Fails when the requests of one namespace, which are served one after the other, delay another's, or have no bound.
func TestT6RequestsOfANamespaceAreInTheWayOfNoOthers(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	r := &slowly{slow: "team-m", began: make(chan struct{}, maxAnswering), end: make(chan struct{})}
	answering(t, b, r, func() bool { return true })
	const many = 2 * maxAskedEach
	told := make(chan error, many)
	for range many {
		go func() {
			_, err := b.AskReplay(ctx, "team-m", view.ReplayRequest{})
			told <- err
		}()
	}
	for range many - maxAskedEach {
		if e, ok := errors.AsType[*event.Error](receive(t, told)); !ok || e.Class != event.Retry || e.RetryAfter <= 0 {
			t.Errorf("one too many is told %v", e)
		}
	}
	for range maxAskedEach {
		receive(t, r.began)
	}
	soon, cancel := context.WithTimeout(ctx, askTime/3)
	defer cancel()
	if result, err := b.AskReplay(soon, "team-a", view.ReplayRequest{}); err != nil || result.Replayed != 1 {
		t.Errorf("another namespace is told %+v, %v", result, err)
	}
	close(r.end)
	for range maxAskedEach {
		must(t, receive(t, told))
	}
	if _, err := b.AskReplay(ctx, "team-m", view.ReplayRequest{}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
