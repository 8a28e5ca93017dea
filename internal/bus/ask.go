package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"notifier/internal/event"
	"notifier/internal/event/view"
	"notifier/internal/fair"
)

const (
	// subjectAsk begins the subjects on which replicas ask the worker.
	subjectAsk = "notifier.ask."
	askReplay  = "replay"
	askTest    = "test"
	// askTime bounds one request, maxAsk its size in bytes.
	askTime = 30 * time.Second
	maxAsk  = 512 << 10
	// maxAnswering is how many requests the worker accepts at a time; Requests decides how many of them it serves at once. maxAsked is how
	// many more may wait. Further ones are not answered.
	maxAnswering = 64
	maxAsked     = 64
	// maxAskedEach is how many requests of one namespace the worker accepts at a time. Further ones are refused, with askAgain as the time to
	// wait.
	maxAskedEach = 8
	askAgain     = 2 * time.Second
)

// Requests serves the requests that only the worker can serve. It is called for many requests at a time, and divides its work among
// namespaces. The text of an error that is neither an *event.Error nor view.ErrNotFound is only logged.
type Requests interface {
	Replay(ctx context.Context, namespace string, r view.ReplayRequest) (view.ReplayResult, error)
	Test(ctx context.Context, namespace string, r view.TestRequest) (view.TestResult, error)
}

// question and answer are the bodies of a request and its reply.
type question[T any] struct {
	Namespace string `json:"namespace"`
	Request   T      `json:"request"`
}

type answer[T any] struct {
	Result T        `json:"result"`
	Error  *refusal `json:"error,omitempty"`
}

// refusal is an error in a form that may be shown to an owner.
type refusal struct {
	// NotFound is true for view.ErrNotFound.
	NotFound  bool   `json:"notFound,omitempty"`
	Permanent bool   `json:"permanent,omitempty"`
	Label     string `json:"label,omitempty"`
	Reason    string `json:"reason,omitempty"`
	// RetryAfter is in nanoseconds.
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
}

// AskReplay asks the worker, on any replica, to publish deliveries of a namespace again. Without a worker it returns view.ErrNoWorker.
// After another error that is no *event.Error some of them may have been published.
func (b *Bus) AskReplay(ctx context.Context, namespace string, r view.ReplayRequest) (view.ReplayResult, error) {
	return ask[view.ReplayRequest, view.ReplayResult](ctx, b, askReplay, namespace, r)
}

// AskTest asks the worker to send a test message through a Provider of a namespace.
func (b *Bus) AskTest(ctx context.Context, namespace string, r view.TestRequest) (view.TestResult, error) {
	return ask[view.TestRequest, view.TestResult](ctx, b, askTest, namespace, r)
}

func ask[Q, A any](ctx context.Context, b *Bus, what, namespace string, q Q) (result A, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	body, err := json.Marshal(question[Q]{Namespace: namespace, Request: q})
	if err != nil {
		return result, fmt.Errorf("ask the worker: %w", err)
	}
	if len(body) > maxAsk {
		return result, event.NewError(event.Permanent, "too_large", "the request is too large", nil)
	}
	reply, err := b.nc.RequestWithContext(ctx, subjectAsk+what, body)
	if errors.Is(err, nats.ErrNoResponders) {
		return result, view.ErrNoWorker
	}
	if err != nil {
		return result, fmt.Errorf("ask the worker: %w", err)
	}
	var a answer[A]
	if err := json.Unmarshal(reply.Data, &a); err != nil {
		return result, errors.New("ask the worker: its answer is not understood")
	}
	return a.Result, a.Error.error()
}

// error returns the error that a refusal describes, nil for none.
func (r *refusal) error() error {
	switch {
	case r == nil:
		return nil
	case r.NotFound:
		return view.ErrNotFound
	case r.Permanent:
		return event.NewError(event.Permanent, r.Label, r.Reason, nil)
	}
	e := event.NewError(event.Retry, r.Label, r.Reason, nil)
	e.RetryAfter = r.RetryAfter
	return e
}

// refusalOf returns the refusal that describes an error to the asking replica.
func refusalOf(err error) *refusal {
	if errors.Is(err, view.ErrNotFound) {
		return &refusal{NotFound: true}
	}
	if e, ok := errors.AsType[*event.Error](err); ok {
		return &refusal{Permanent: e.Class == event.Permanent, Label: e.Label, Reason: e.Reason, RetryAfter: e.RetryAfter}
	}
	return &refusal{Label: "other", Reason: "the worker could not do it"}
}

// Answer serves the requests of AskReplay and AskTest until ctx ends. It is for the worker, in its term: a request that arrives after the
// term is not answered.
func (b *Bus) Answer(ctx context.Context, r Requests) error {
	asked := make(chan *nats.Msg, maxAsked)
	sub, err := b.nc.ChanSubscribe(subjectAsk+anyToken, asked)
	if err != nil {
		return fmt.Errorf("answer requests: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	var serving errgroup.Group
	serving.SetLimit(maxAnswering)
	a := &answerer{Bus: b, requests: r, places: fair.NewCapacities[string](nil, maxAskedEach, 0)}
	defer func() { _ = serving.Wait() }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-asked:
			serving.Go(func() error {
				a.answer(ctx, m)
				return nil
			})
		}
	}
}

// answerer is one term of answering.
type answerer struct {
	*Bus
	requests Requests
	// places count each namespace's requests that are being served or wait to be.
	places *fair.Capacities[string]
}

func (a *answerer) answer(ctx context.Context, m *nats.Msg) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var body []byte
	switch m.Subject {
	case subjectAsk + askReplay:
		body = serve(ctx, a, m, a.requests.Replay)
	case subjectAsk + askTest:
		body = serve(ctx, a, m, a.requests.Test)
	}
	if body == nil {
		return
	}
	if err := m.Respond(body); err != nil {
		a.log.Warn("a request of a replica was not answered", "error", err)
	}
}

// serve returns the answer to a question, nil for none.
func serve[Q, A any](ctx context.Context, a *answerer, m *nats.Msg, do func(context.Context, string, Q) (A, error)) []byte {
	var q question[Q]
	if len(m.Data) > maxAsk || json.Unmarshal(m.Data, &q) != nil || q.Namespace == "" || !event.Owned(ctx) {
		return nil
	}
	var reply answer[A]
	var err error
	if reply.Result, err = one(ctx, a, q, do); err != nil {
		reply.Error = refusalOf(err)
		a.log.Warn("a request of an owner failed", "namespace", q.Namespace, "request", m.Subject, "error", err)
	}
	body, err := encodeJSON(reply)
	if err != nil {
		return nil
	}
	return body
}

// one calls do for one request if its namespace has capacity for it. It turns a panic into an error: an owner's request must not end the
// process, which works for others as well. The value of the panic may quote the request, so the error has only its type.
func one[Q, A any](ctx context.Context, a *answerer, q question[Q], do func(context.Context, string, Q) (A, error)) (result A, err error) {
	place, free := a.places.TryAcquire(q.Namespace, 1)
	if !free {
		return result, &event.Error{
			Class: event.Retry, Label: "busy", Reason: "too many replays and tests of this namespace are under way: ask again in some seconds",
			RetryAfter: askAgain,
		}
	}
	defer place.Release()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a panic with a value of type %T\n%s", p, debug.Stack())
		}
	}()
	return do(ctx, q.Namespace, q.Request)
}
