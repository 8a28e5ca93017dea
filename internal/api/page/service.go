package page

import (
	"context"
	"net/http"

	"notifier/internal/api"
	"notifier/internal/event/view"
)

// Service reads and acts for a user, within the user's rights: an [api.Service].
type Service interface {
	Authenticate(ctx context.Context, r *http.Request) (*api.User, error)
	May(ctx context.Context, u *api.User, namespace string, r api.Right) (bool, error)
	Turn(ctx context.Context, u *api.User) (release func(), err error)
	Sending(ctx context.Context, u *api.User, n int) (release func(), err error)

	Namespaces(ctx context.Context, u *api.User) (view.Namespaces, error)
	Deliveries(ctx context.Context, u *api.User, namespace string, q view.Query) (view.Page[view.Delivery], error)
	Delivery(ctx context.Context, u *api.User, namespace, id string) (view.DeliveryDetail, error)
	Events(ctx context.Context, u *api.User, namespace string, q view.Query) (view.Page[view.Event], error)
	Explain(ctx context.Context, u *api.User, namespace, id string) (view.Explanation, error)
	Webhooks(ctx context.Context, u *api.User, namespace string, q view.Query) (view.Page[view.Webhook], error)
	Health(ctx context.Context, u *api.User, namespace string) ([]view.Health, error)

	Replay(ctx context.Context, u *api.User, namespace string, r view.ReplayRequest) (view.ReplayResult, error)
	Test(ctx context.Context, u *api.User, namespace string, r view.TestRequest) (view.TestResult, error)
}
