package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"

	"notifier/internal/api/brief"
	"notifier/internal/event"
	"notifier/internal/event/view"
	"notifier/internal/receiver/limit"
)

// Authority authenticates tokens and authorizes users. Its errors are ErrUnauthenticated, ErrUnavailable and ErrBusy.
type Authority interface {
	// Authenticate returns the owner of a token that was sent from an address.
	Authenticate(ctx context.Context, token string, from netip.Addr) (*User, error)
	// Allowed reports whether a user has a right in a namespace. An empty namespace means all of them.
	Allowed(ctx context.Context, u *User, r Right, namespace string) (bool, error)
	// Made returns when a namespace was made, zero if there is no such namespace.
	Made(ctx context.Context, namespace string) (time.Time, error)
}

// Store has the kept events, deliveries and webhooks of each namespace.
type Store interface {
	ListDeliveries(ctx context.Context, namespace string, q view.Query) (view.Page[view.Delivery], error)
	// FindDelivery returns a delivery, whose Tries are a list even without any.
	FindDelivery(ctx context.Context, namespace, id string) (view.DeliveryDetail, error)
	// FindDeliveries returns the kept deliveries of an event, by their IDs. accepted is the time at which the event was accepted.
	FindDeliveries(ctx context.Context, namespace string, accepted time.Time, ids []string) (map[string]view.Delivery, error)
	ListEvents(ctx context.Context, namespace string, q view.Query) (view.Page[view.Event], error)
	FindEvent(ctx context.Context, namespace, id string) (*event.Record, error)
	ListWebhooks(ctx context.Context, namespace string, q view.Query) (view.Page[view.Webhook], error)
	// Follow calls handle with a view.Begun and then with each new item of a list, a view.Delivery, view.Event or view.Webhook, until
	// ctx ends or handle fails. Every few seconds a view.Reached is among them, unless the streams cannot be read.
	Follow(ctx context.Context, namespace string, list view.List, handle func(item any) error) error
}

// Worker sends requests to the replica that is the worker, which alone sends notifications.
type Worker interface {
	AskReplay(ctx context.Context, namespace string, r view.ReplayRequest) (view.ReplayResult, error)
	AskTest(ctx context.Context, namespace string, r view.TestRequest) (view.TestResult, error)
}

// Explainer returns the decisions of the Alerts of an event's namespace. Its decisions have no Delivery.
type Explainer interface {
	Explain(ctx context.Context, r *event.Record) []view.Decision
}

// Objects has the existing Providers, Alerts and Receivers.
type Objects interface {
	// Namespaces returns the namespaces that have any, in order.
	Namespaces() []string
	// Health returns the state of those of a namespace, by kind and name.
	Health(namespace string) []view.Health
}

// Options are the parts of a Service. All but Proxies and Audiences are required.
type Options struct {
	Authority Authority
	Store     Store
	Worker    Worker
	Explainer Explainer
	Objects   Objects
	// Proxies are in front of the API. They name the client of a request.
	Proxies limit.Proxies
	// Audiences are the accepted audiences of tokens, as the Authority checks them. Empty means those of the API server.
	Audiences []string
	Log       *slog.Logger
}

// Service serves users according to their rights. AsError returns its errors in a form to show.
type Service struct {
	options Options
	limits  *limits
	// found has the namespaces of users, by their Key.
	found *brief.Answers[[32]byte, view.Namespaces]
	// flights are the pages that wait to be read.
	flights singleflight.Group
}

// New returns a Service.
func New(o Options) (*Service, error) {
	if o.Authority == nil || o.Store == nil || o.Worker == nil || o.Explainer == nil || o.Objects == nil || o.Log == nil {
		return nil, errors.New("api: an option is missing")
	}
	return &Service{options: o, limits: newLimits(), found: brief.New[[32]byte, view.Namespaces](maxAnswers)}, nil
}

// maxToken bounds a token, in bytes. Tokens of service accounts have about a thousand.
const maxToken = 6 << 10

// Authenticate returns the user whose token a request has, and counts the request: a user with too many of them is refused before anything is
// done. The error is one like ErrUnauthenticated, ErrUnavailable or ErrBusy.
func (s *Service) Authenticate(ctx context.Context, r *http.Request) (*User, error) {
	token, ok := bearer(r)
	if !ok {
		return nil, s.unauthenticated()
	}
	from := s.options.Proxies.Client(r)
	u, err := s.owner(ctx, token, from)
	if err != nil {
		return nil, err
	}
	if !s.limits.rate.Allow(u.Tenant()) {
		return nil, ErrBusy
	}
	known := *u
	known.token, known.from = secret(token), from
	return &known, nil
}

// owner returns the owner of a token.
func (s *Service) owner(ctx context.Context, token string, from netip.Addr) (*User, error) {
	u, err := s.options.Authority.Authenticate(ctx, token, from)
	if errors.Is(err, ErrUnauthenticated) {
		err = s.unauthenticated()
	}
	return u, err
}

func (s *Service) unauthenticated() *Error { return unauthenticated(s.TokenCommand("NAME")) }

// TokenCommand returns the command that makes a token of a service account, for an accepted audience.
func (s *Service) TokenCommand(account string) string {
	command := makingToken(account)
	if len(s.options.Audiences) > 0 {
		command += " --audience=" + s.options.Audiences[0]
	}
	return command
}

// bearer returns the token of a request, in the form of RFC 6750, section 2.1. A request with several is treated as one without.
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

// May reports whether a user has a right in a namespace, so that a page offers only permitted actions.
func (s *Service) May(ctx context.Context, u *User, namespace string, r Right) (bool, error) {
	if !isNamespace(namespace) {
		return false, nil
	}
	return s.options.Authority.Allowed(ctx, u, r, namespace)
}

// enter checks some rights in a namespace, and returns when the namespace was made: nothing from before is shown. Its error is the refusal
// of a user who lacks one of the rights.
func (s *Service) enter(ctx context.Context, u *User, namespace string, rights ...Right) (made time.Time, err error) {
	for _, r := range rights {
		if err := s.authorize(ctx, u, namespace, r); err != nil {
			return time.Time{}, err
		}
	}
	return s.options.Authority.Made(ctx, namespace)
}

// authorize returns nil if a user has a right in a namespace, and the refusal otherwise.
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

// inTurn runs read in the user's turn.
func inTurn[T any](ctx context.Context, s *Service, u *User, read func(context.Context) (T, error)) (found T, err error) {
	var none T
	release, err := s.limits.read(ctx, u)
	if err != nil {
		return none, err
	}
	// A caller who leaves is charged like one who gets the answer.
	defer func() { release(err == nil || ctx.Err() != nil || AsError(err) != errStore) }()
	timed, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if found, err = read(timed); err != nil {
		return none, fmt.Errorf("read: %w", err)
	}
	return found, nil
}

// Deliveries returns a page of the deliveries of a namespace, newest first.
func (s *Service) Deliveries(ctx context.Context, u *User, namespace string, q view.Query) (view.Page[view.Delivery], error) {
	return listed(ctx, visit{s, u, namespace}, view.Deliveries, q, s.options.Store.ListDeliveries)
}

// Delivery returns one delivery with everything that is kept of it.
func (s *Service) Delivery(ctx context.Context, u *User, namespace, id string) (view.DeliveryDetail, error) {
	return detail(ctx, visit{s, u, namespace}, func(ctx context.Context, made time.Time) (view.DeliveryDetail, error) {
		if !isID(id) {
			return view.DeliveryDetail{}, view.ErrNotFound
		}
		found, err := s.options.Store.FindDelivery(ctx, namespace, id)
		if err != nil || isOlder(found.Delivery, made) {
			return view.DeliveryDetail{}, cmp.Or(err, view.ErrNotFound)
		}
		return found, nil
	}, GetDelivery)
}

// Events returns a page of the events of a namespace, newest first. Long messages are cut, and large metadata is left out.
func (s *Service) Events(ctx context.Context, u *User, namespace string, q view.Query) (view.Page[view.Event], error) {
	return listed(ctx, visit{s, u, namespace}, view.Events, q, s.shortEvents)
}

// shortEvents is ListEvents with each event shortened.
func (s *Service) shortEvents(ctx context.Context, namespace string, q view.Query) (view.Page[view.Event], error) {
	page, err := s.options.Store.ListEvents(ctx, namespace, q)
	for i, e := range page.Items {
		page.Items[i] = shortened(e)
	}
	return page, err
}

// Webhooks returns a page of the webhooks for the Receivers of a namespace, newest first.
func (s *Service) Webhooks(ctx context.Context, u *User, namespace string, q view.Query) (view.Page[view.Webhook], error) {
	return listed(ctx, visit{s, u, namespace}, view.Webhooks, q, s.options.Store.ListWebhooks)
}

// Health returns the state of the objects of a namespace. Providers and Alerts require the right to list deliveries, Receivers the
// right to list webhooks.
func (s *Service) Health(ctx context.Context, u *User, namespace string) ([]view.Health, error) {
	deliveries, err := s.May(ctx, u, namespace, ListRight(view.Deliveries))
	if err != nil {
		return nil, err
	}
	webhooks, err := s.May(ctx, u, namespace, ListRight(view.Webhooks))
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
	defer release(true)
	seen := []view.Health{}
	for _, h := range s.options.Objects.Health(namespace) {
		if h.Kind == "Receiver" && webhooks || h.Kind != "Receiver" && deliveries {
			seen = append(seen, h)
		}
	}
	return seen, nil
}
