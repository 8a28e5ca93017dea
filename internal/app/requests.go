package app

import (
	"context"

	"notifier/internal/event/view"
)

// requests passes the requests in owners' annotations to the deliverer, which is wired after the controllers that read them.
type requests struct{ app *App }

// Replay implements reconcile.Requests.
func (r requests) Replay(ctx context.Context, namespace string, q view.ReplayRequest) (view.ReplayResult, error) {
	return r.app.deliverer.Replay(ctx, namespace, q)
}

// Test implements reconcile.Requests.
func (r requests) Test(ctx context.Context, namespace string, q view.TestRequest) (view.TestResult, error) {
	return r.app.deliverer.Test(ctx, namespace, q)
}
