package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"

	"notifier/internal/event"
	"notifier/internal/event/view"
	"notifier/internal/receiver/limit"
)

// Authority knows whose a token is and who may do what. Its errors are ErrUnauthenticated, ErrUnavailable and ErrBusy.
type Authority interface {
	// Authenticate returns the owner of a token that came from an address.
	Authenticate(ctx context.Context, token string, from netip.Addr) (*User, error)
	// Allowed reports whether a user has a right in a namespace, in all of them for the empty one.
	Allowed(ctx context.Context, u *User, r Right, namespace string) (bool, error)
}

// Store is what is kept of the events, deliveries and webhooks of a namespace.
type Store interface {
	ListDeliveries(ctx context.Context, namespace string, q view.Query) (view.Page[view.Delivery], error)
	FindDelivery(ctx context.Context, namespace, id string) (view.DeliveryDetail, error)
	// FindDeliveries returns what is kept of deliveries of an event that was accepted at a time, by their IDs.
	FindDeliveries(ctx context.Context, namespace string, accepted time.Time, ids []string) (map[string]view.Delivery, error)
	ListEvents(ctx context.Context, namespace string, q view.Query) (view.Page[view.Event], error)
	FindEvent(ctx context.Context, namespace, id string) (*event.Record, error)
	ListWebhooks(ctx context.Context, namespace string, q view.Query) (view.Page[view.Webhook], error)
	// Follow calls handle with a view.Begun and then with each new item of a list, a view.Delivery, view.Event or view.Webhook, until ctx
	// ends or handle fails.
	Follow(ctx context.Context, namespace string, list view.List, handle func(item any) error) error
}

// Worker is the replica at work, which alone sends.
type Worker interface {
	AskReplay(ctx context.Context, namespace string, r view.ReplayRequest) (view.ReplayResult, error)
	AskTest(ctx context.Context, namespace string, r view.TestRequest) (view.TestResult, error)
}

// Explainer says what the Alerts of an event's namespace decide about it. Its decisions have no Delivery.
type Explainer interface {
	Explain(ctx context.Context, r *event.Record) []view.Decision
}

// Objects are the Providers, Alerts and Receivers that there are.
type Objects interface {
	// Namespaces are those that have any, in order.
	Namespaces() []string
	// Health is how those of a namespace fare, by kind and name.
	Health(namespace string) []view.Health
}

// Options are what a Service is made of. All but Proxies are required.
type Options struct {
	Authority Authority
	Store     Store
	Worker    Worker
	Explainer Explainer
	Objects   Objects
	// Proxies are in front of the API: the client of a request is whom they name.
	Proxies limit.Proxies
	Log     *slog.Logger
}

// Service shows and does for users what they may. AsError tells what its errors may be shown as.
type Service struct {
	options    Options
	limits     *limits
	namespaces *namespaces
	// flights are the pages that are about to be read.
	flights singleflight.Group
}

// New returns a Service.
func New(o Options) (*Service, error) {
	if o.Authority == nil || o.Store == nil || o.Worker == nil || o.Explainer == nil || o.Objects == nil || o.Log == nil {
		return nil, errors.New("api: an option is missing")
	}
	return &Service{options: o, limits: newLimits(), namespaces: newNamespaces()}, nil
}

// maxToken bounds a token, in bytes. Tokens of service accounts have about a thousand.
const maxToken = 6 << 10

// Authenticate returns the user whose token a request bears. The error is ErrUnauthenticated, ErrUnavailable or ErrBusy.
func (s *Service) Authenticate(ctx context.Context, r *http.Request) (*User, error) {
	token, ok := bearer(r)
	if !ok {
		return nil, ErrUnauthenticated
	}
	u, err := s.options.Authority.Authenticate(ctx, token, s.options.Proxies.Client(r))
	if err != nil {
		return nil, err
	}
	known := *u
	known.token, known.from = secret(token), s.options.Proxies.Client(r)
	return &known, nil
}

// bearer is the token of a request, in the form of RFC 6750, section 2.1. A request with several is one with none.
func bearer(r *http.Request) (string, bool) {
	values := r.Header["Authorization"]
	if len(values) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.Trim(token, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxToken {
		return "", false
	}
	if strings.Trim(strings.TrimRight(token, "="), tokenCharacters) != "" {
		return "", false
	}
	return token, true
}

const tokenCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/"

// May reports whether a user has a right in a namespace, so that a page offers nobody what they may not.
func (s *Service) May(ctx context.Context, u *User, namespace string, r Right) (bool, error) {
	if !isNamespace(namespace) {
		return false, nil
	}
	return s.options.Authority.Allowed(ctx, u, r, namespace)
}

// admit counts a request of a user, and returns why they may not read in a namespace, nil if they have all of some rights there.
func (s *Service) admit(ctx context.Context, u *User, namespace string, rights ...Right) error {
	if !s.limits.rate.Allow(u.Tenant()) {
		return ErrBusy
	}
	for _, r := range rights {
		if err := s.authorize(ctx, u, namespace, r); err != nil {
			return err
		}
	}
	return nil
}

// authorize returns why a user may not, nil if they may.
func (s *Service) authorize(ctx context.Context, u *User, namespace string, r Right) error {
	if !isNamespace(namespace) {
		return invalid("a namespace is at most 63 lower-case letters, digits and hyphens")
	}
	switch allowed, err := s.options.Authority.Allowed(ctx, u, r, namespace); {
	case err != nil:
		return err
	case !allowed:
		return forbidden(r)
	}
	return nil
}

// visit is a user in a namespace, with the rights that they need there.
type visit struct {
	service   *Service
	user      *User
	namespace string
	rights    []Right
}

func (s *Service) visit(u *User, namespace string, rights ...Right) visit {
	return visit{s, u, namespace, rights}
}

// guarded runs read for a user who has the rights.
func guarded[T any](ctx context.Context, v visit, read func(context.Context) (T, error)) (T, error) {
	if err := v.service.admit(ctx, v.user, v.namespace, v.rights...); err != nil {
		var none T
		return none, err
	}
	return inTurn(ctx, v, read)
}

// inTurn runs read when it is the user's turn.
func inTurn[T any](ctx context.Context, v visit, read func(context.Context) (T, error)) (T, error) {
	var none T
	release, err := v.service.limits.read(ctx, v.user)
	if err != nil {
		return none, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	found, err := read(ctx)
	if err != nil {
		return none, fmt.Errorf("read: %w", err)
	}
	return found, nil
}

// Deliveries is a page of the deliveries of a namespace, newest first.
func (s *Service) Deliveries(ctx context.Context, u *User, namespace string, q view.Query) (view.Page[view.Delivery], error) {
	return listed(ctx, s.visit(u, namespace), view.Deliveries, q, s.options.Store.ListDeliveries)
}

// Delivery is all that is kept of one.
func (s *Service) Delivery(ctx context.Context, u *User, namespace, id string) (view.DeliveryDetail, error) {
	return guarded(ctx, s.visit(u, namespace, GetDelivery), func(ctx context.Context) (view.DeliveryDetail, error) {
		if !isID(id) {
			return view.DeliveryDetail{}, view.ErrNotFound
		}
		return s.options.Store.FindDelivery(ctx, namespace, id)
	})
}

// Events is a page of the events of a namespace, newest first. Long messages are cut there, and large metadata are left out.
func (s *Service) Events(ctx context.Context, u *User, namespace string, q view.Query) (view.Page[view.Event], error) {
	return listed(ctx, s.visit(u, namespace), view.Events, q, s.shortEvents)
}

// shortEvents is ListEvents with each event shortened.
func (s *Service) shortEvents(ctx context.Context, namespace string, q view.Query) (view.Page[view.Event], error) {
	page, err := s.options.Store.ListEvents(ctx, namespace, q)
	for i, e := range page.Items {
		page.Items[i] = shortened(e)
	}
	return page, err
}

// Webhooks is a page of the webhooks that came in for the Receivers of a namespace, newest first.
func (s *Service) Webhooks(ctx context.Context, u *User, namespace string, q view.Query) (view.Page[view.Webhook], error) {
	return listed(ctx, s.visit(u, namespace), view.Webhooks, q, s.options.Store.ListWebhooks)
}

// Namespaces are those with Providers, Alerts or Receivers in which a user may list deliveries. The namespace of a service account is
// the first.
func (s *Service) Namespaces(ctx context.Context, u *User) (view.Namespaces, error) {
	if !s.limits.rate.Allow(u.Tenant()) {
		return view.Namespaces{}, ErrBusy
	}
	return s.namespaces.of(ctx, s.options, u)
}

// Health is how the objects of a namespace fare: Providers and Alerts for who may list deliveries, Receivers for who may list webhooks.
func (s *Service) Health(ctx context.Context, u *User, namespace string) ([]view.Health, error) {
	if !s.limits.rate.Allow(u.Tenant()) {
		return nil, ErrBusy
	}
	deliveries, err := s.shown(ctx, u, namespace, view.Deliveries)
	if err != nil {
		return nil, err
	}
	webhooks, err := s.shown(ctx, u, namespace, view.Webhooks)
	if err != nil {
		return nil, err
	}
	if !deliveries && !webhooks {
		return nil, forbidden(ListRight(view.Deliveries))
	}
	release, err := s.limits.read(ctx, u)
	if err != nil {
		return nil, err
	}
	defer release()
	seen := []view.Health{}
	for _, h := range s.options.Objects.Health(namespace) {
		if h.Kind == "Receiver" && webhooks || h.Kind != "Receiver" && deliveries {
			seen = append(seen, h)
		}
	}
	return seen, nil
}

// shown reports whether a user may see a list.
func (s *Service) shown(ctx context.Context, u *User, namespace string, l view.List) (bool, error) {
	err := s.authorize(ctx, u, namespace, ListRight(l))
	if e, ok := errors.AsType[*Error](err); ok && e.Status == http.StatusForbidden {
		return false, nil
	}
	return err == nil, err
}
