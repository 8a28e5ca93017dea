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
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/internal/api"
	"notifier/internal/api/brief"
	"notifier/internal/fair"
)

// The times for which answers are kept. During a watch the token and the right are reviewed again every three seconds, and a review
// may take three. With these four a revoked token or right ends within ten seconds.
const (
	userFor    = 4 * time.Second
	allowedFor = 4 * time.Second
	refusedFor = 2 * time.Second
	// questionTimeout bounds a review.
	questionTimeout = 3 * time.Second
)

// The bounds on kept answers. Refusals have bounds of their own, so invented tokens and namespaces evict no positive answer.
const (
	maxUsers   = 4096
	maxAllowed = 16384
	maxRefused = 8192
)

// The rates of reviews, a second and at once: of tokens that were good before, of other tokens, and of rights.
const (
	knownRate, knownBurst     = 200, 400
	unknownRate, unknownBurst = 25, 50
	// reserveRate and reserveBurst are for addresses that have sent no token at a cost for failingFor, when the others have used up the common
	// budget: each address can use one of the reserve in that time, so that it takes 1,500 to use it up.
	reserveRate, reserveBurst = 25, 50
	failingFor                = time.Minute
	rightRate, rightBurst     = 200, 400
	// tenantQuestions bounds the concurrent reviews for one tenant, so that others wait for few of them.
	tenantQuestions = 8
	// addressRate and addressBurst bound the tokens at a cost from one address: invalid ones, and those beyond tenantTokens.
	addressRate, addressBurst = 5, 20
	maxAddresses              = 8192
)

// Reviewer sends reviews of one kind to the Kubernetes API. Create returns a review with its answer.
type Reviewer[R any] interface {
	Create(ctx context.Context, review R, options metav1.CreateOptions) (R, error)
}

// Namespaces reads namespaces from the Kubernetes API.
type Namespaces interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*corev1.Namespace, error)
}

// Options are the parts of an Authority. All but Audiences are required.
type Options struct {
	Tokens     Reviewer[*authenticationv1.TokenReview]
	Rights     Reviewer[*authorizationv1.SubjectAccessReview]
	Namespaces Namespaces
	// Audiences are the accepted audiences of tokens; a token must be for one of them. Empty means those of the API server.
	Audiences  []string
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Authority is an api.Authority that reviews tokens and rights by the Kubernetes API.
type Authority struct {
	options Options
	metrics *metrics

	users   *brief.Answers[tokenKey, *api.User]
	owned   *owned
	unknown *brief.Answers[tokenKey, struct{}]
	allowed *brief.Answers[question, struct{}]
	denied  *brief.Answers[question, struct{}]
	made    *brief.Answers[string, time.Time]
	looks   looks
	flights singleflight.Group

	addresses *fair.Limiters[netip.Addr]
	// failing are the addresses that sent a token at a cost within failingFor.
	failing                      *brief.Answers[netip.Addr, struct{}]
	unknownBudget, reserveBudget *fair.Limiters[struct{}]
	knownBudget, rightBudget     *rate.Limiter
	// asking has the access reviews that are under way or waited for, by tenant.
	asking  *fair.Capacities[string]
	trouble *rate.Limiter
}

type tokenKey = [sha256.Size]byte

// question is a right of a user in a namespace.
type question struct {
	who       [sha256.Size]byte // the user's Key
	right     api.Right
	namespace string
}

// New returns an Authority.
func New(o Options) (*Authority, error) {
	if o.Tokens == nil || o.Rights == nil || o.Namespaces == nil || o.Log == nil {
		return nil, errors.New("access: an option is missing")
	}
	return &Authority{
		options: o, metrics: newMetrics(o.Registerer),
		users: brief.New[tokenKey, *api.User](maxUsers), owned: newOwned(),
		unknown:       brief.New[tokenKey, struct{}](maxRefused),
		allowed:       brief.New[question, struct{}](maxAllowed),
		denied:        brief.New[question, struct{}](maxRefused),
		made:          brief.New[string, time.Time](maxAllowed),
		looks:         looks{newest: map[string]*time.Time{}},
		addresses:     fair.NewLimiters[netip.Addr](addressRate, addressBurst, maxAddresses),
		failing:       brief.New[netip.Addr, struct{}](maxAddresses),
		unknownBudget: fair.NewLimiters[struct{}](unknownRate, unknownBurst, 1),
		reserveBudget: fair.NewLimiters[struct{}](reserveRate, reserveBurst, 1),
		knownBudget:   rate.NewLimiter(knownRate, knownBurst),
		rightBudget:   rate.NewLimiter(rightRate, rightBurst), asking: fair.NewCapacities[string](nil, tenantQuestions, 0),
		trouble: rate.NewLimiter(rate.Every(time.Second), 10),
	}, nil
}

// shared calls ask once for all concurrent callers with the same key. The call continues when a caller gives up.
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

// failed counts and logs a failed review without any part of the request, and returns api.ErrUnavailable.
func (a *Authority) failed(ctx context.Context, of results, what string, err error) error {
	of.failed.Inc()
	if a.trouble.Allow() {
		log := a.options.Log.With("review", what, "error", reason(err))
		if apierrors.IsForbidden(err) {
			log.WarnContext(ctx, "the process may not ask the Kubernetes API about users: apply config/api again")
		} else {
			log.WarnContext(ctx, "the Kubernetes API did not answer a review")
		}
	}
	return api.ErrUnavailable
}
