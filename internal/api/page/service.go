package page

import (
	"context"
	"errors"
	"net/http"

	"notifier/internal/event/view"
)

// Errors of a [Service] and of a [User] that the page tells apart, beside those of package view.
var (
	// ErrSignIn says that the request has no token, or has a token that is not valid.
	ErrSignIn = errors.New("not signed in")
	// ErrForbidden says that the user has not the right.
	ErrForbidden = errors.New("forbidden")
	// ErrBusy says that the user asks for too much at a time.
	ErrBusy = errors.New("too many requests")
)

// Service knows users.
type Service interface {
	// SignIn returns the user that a request comes from, by its Authorization header. It returns ErrSignIn when there is none.
	SignIn(r *http.Request) (User, error)
}

// User reads and does what one user may. Every method but Name and May returns ErrForbidden for a namespace in which the user may not.
type User interface {
	// Name is the user's name, to be shown.
	Name() string
	// Namespaces are those in which the user may list deliveries, as far as they are known.
	Namespaces(ctx context.Context) ([]string, error)
	Deliveries(ctx context.Context, namespace string, q view.Query) (view.Page[view.Delivery], error)
	Delivery(ctx context.Context, namespace, id string) (view.DeliveryDetail, error)
	Events(ctx context.Context, namespace string, q view.Query) (view.Page[view.Event], error)
	Explain(ctx context.Context, namespace, id string) (view.Explanation, error)
	Webhooks(ctx context.Context, namespace string, q view.Query) (view.Page[view.Webhook], error)
	Health(ctx context.Context, namespace string) (Health, error)
	Replay(ctx context.Context, namespace string, req view.ReplayRequest) (view.ReplayResult, error)
	Test(ctx context.Context, namespace string, req view.TestRequest) (view.TestResult, error)
	// May says whether an action is offered to the user. Whether it is done is decided when it is asked for.
	May(ctx context.Context, namespace string, a Action) bool
}

// Action is what a user may do beside reading.
type Action string

// The actions.
const (
	Replay Action = "replay"
	Test   Action = "test"
)

// Health is how the objects of a namespace are.
type Health struct {
	Providers, Alerts, Receivers []Object
}

// Object is a Provider, an Alert or a Receiver.
type Object struct {
	Name string
	// Type is the spec's, empty for an Alert.
	Type string
	// State is one of "ready", "failed", "suspended" and "unknown".
	State string
	// Problem says why it is not ready.
	Problem string
}
