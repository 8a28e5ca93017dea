package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"notifier/internal/api"
	"notifier/internal/api/brief"
	"notifier/internal/fair"
)

// For how long answers are believed. A token and a right are asked about again every three seconds while a watch lasts, and may take three
// to be told: with these four they are gone ten seconds after they were revoked.
const (
	userFor    = 4 * time.Second
	allowedFor = 4 * time.Second
	refusedFor = 2 * time.Second
	// questionTimeout ends a question that the Kubernetes API does not answer.
	questionTimeout = 3 * time.Second
)

// How many answers are kept. Refusals have places of their own, so that inventing tokens and namespaces pushes out no good answer.
const (
	maxUsers   = 4096
	maxAllowed = 16384
	maxRefused = 8192
)

// What the Kubernetes API is asked, in questions a second and at once: about tokens that were good before, about others, and about rights.
const (
	knownRate, knownBurst     = 200, 400
	unknownRate, unknownBurst = 50, 100
	rightRate, rightBurst     = 200, 400
	// tenantQuestions bounds the questions at a time about rights of one tenant, so that others wait for few of them.
	tenantQuestions = 8
	// addressRate and addressBurst bound the tokens that are none from one address.
	addressRate, addressBurst = 5, 20
	maxAddresses              = 8192
)

// Options are what an Authority is made of. All but Audiences are required.
type Options struct {
	Tokens authentication.TokenReviewInterface
	Rights authorization.SubjectAccessReviewInterface
	// Audiences are those for one of which a token must have been issued, empty for those of the API server.
	Audiences  []string
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Authority is an api.Authority.
type Authority struct {
	options Options
	metrics *metrics

	users   *brief.Answers[tokenKey, *api.User]
	unknown *brief.Answers[tokenKey, struct{}]
	allowed *brief.Answers[question, struct{}]
	denied  *brief.Answers[question, struct{}]
	flights singleflight.Group

	addresses                  *fair.Limiters[netip.Addr]
	knownBudget, unknownBudget *rate.Limiter
	rightBudget                *rate.Limiter
	// asking has the questions about rights that are under way, by tenant.
	asking  *fair.Capacities[string]
	trouble *rate.Limiter
}

type tokenKey = [sha256.Size]byte

// question is whether the owner of a token has a right in a namespace.
type question struct {
	who       tokenKey
	right     api.Right
	namespace string
}

// New returns an Authority.
func New(o Options) (*Authority, error) {
	if o.Tokens == nil || o.Rights == nil || o.Log == nil {
		return nil, errors.New("access: an option is missing")
	}
	return &Authority{
		options: o, metrics: newMetrics(o.Registerer),
		users:       brief.New[tokenKey, *api.User](maxUsers),
		unknown:     brief.New[tokenKey, struct{}](maxRefused),
		allowed:     brief.New[question, struct{}](maxAllowed),
		denied:      brief.New[question, struct{}](maxRefused),
		addresses:   fair.NewLimiters[netip.Addr](addressRate, addressBurst, maxAddresses),
		knownBudget: rate.NewLimiter(knownRate, knownBurst), unknownBudget: rate.NewLimiter(unknownRate, unknownBurst),
		rightBudget: rate.NewLimiter(rightRate, rightBurst), asking: fair.NewCapacities[string](nil, tenantQuestions, 0),
		trouble: rate.NewLimiter(rate.Every(time.Second), 10),
	}, nil
}

// shared asks once for all who ask the same at a time. The question goes on when one of them gives up.
func (a *Authority) shared(ctx context.Context, key string, ask func(context.Context) (any, error)) (any, error) {
	answer := a.flights.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), questionTimeout)
		defer cancel()
		return ask(ctx)
	})
	select {
	case got := <-answer:
		return got.Val, got.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// failed counts and logs a question that was not answered, without a word of the question.
func (a *Authority) failed(ctx context.Context, what string, err error) error {
	if a.trouble.Allow() {
		a.options.Log.WarnContext(ctx, "the Kubernetes API did not answer a review", "review", what, "error", reason(err))
	}
	return api.ErrUnavailable
}
