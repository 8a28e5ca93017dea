// Package identity issues tokens of the service accounts that Providers name, by which they log in to a cloud.
//
// An account is of its Provider's own namespace, and a token is for one audience, never for the API server itself. The requests of a
// namespace have places of their own, so that they delay no other's. Tokens are cached up to a number, which namespaces share fairly.
package identity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"notifier/internal/alerts/provider"
	"notifier/internal/builtin"
	"notifier/internal/event"
	"notifier/internal/fair"
	"notifier/internal/reconcile/kube"
)

// tokenLife is the requested life of a service account's token. The API server may shorten it.
const tokenLife = time.Hour

// accountReads is how many requests for service accounts a namespace has under way. All share one client and its rate: the sends of one
// namespace, a thousand at a time, would hold up every other's for twenty seconds.
const accountReads = 2

// Source reads the API server's service accounts. It has no method to list them, and none for an account of the process.
type Source interface {
	Account(ctx context.Context, key kube.Key) (*corev1.ServiceAccount, error)
	// Token returns a token of an account for one audience, and the time when it expires.
	Token(ctx context.Context, key kube.Key, audience string) (token string, ends time.Time, err error)
}

// NewSource returns the service accounts that a client of the core API reaches.
func NewSource(core rest.Interface) Source { return accountClient{core} }

type accountClient struct{ core rest.Interface }

func (c accountClient) Account(ctx context.Context, key kube.Key) (*corev1.ServiceAccount, error) {
	return builtin.In[corev1.ServiceAccount](c.core, "serviceaccounts", key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
}

func (c accountClient) Token(ctx context.Context, key kube.Key, audience string) (string, time.Time, error) {
	seconds := int64(tokenLife / time.Second)
	issued, err := builtin.Token(ctx, c.core, key.Namespace, key.Name, authenticationv1.TokenRequestSpec{
		Audiences: []string{audience}, ExpirationSeconds: &seconds,
	})
	if err != nil {
		return "", time.Time{}, err
	}
	return issued.Token, issued.ExpirationTimestamp.Time, nil
}

// Accounts has the service accounts that Providers name, and tokens of them.
type Accounts struct {
	source Source
	// places are those for the requests of each namespace. Further requests wait until their context ends.
	places *fair.Capacities[string]
	tokens *tokens
	maxAge time.Duration
}

// issuedFor is the key of a cached token. It has the account's UID, so that a new account of the same name gets no token of the former.
type issuedFor struct {
	account  kube.Key
	uid      string
	audience string
}

type keptToken struct {
	value string
	renew time.Time
}

// New caches up to size tokens, none for 0. Each is cached for at most maxAge and four fifths of its life.
func New(source Source, size int, maxAge time.Duration) *Accounts {
	return &Accounts{source: source, places: fair.NewCapacities[string](nil, accountReads, 0), tokens: newTokens(size), maxAge: maxAge}
}

// Give sets the identity of an account in a Provider's Config. It does nothing for a nil Accounts, or an account without a name.
func (a *Accounts) Give(cfg *provider.Config, account kube.Key) {
	if a == nil || account.Name == "" {
		return
	}
	cfg.Identity = func(ctx context.Context, audience string) (string, error) { return a.token(ctx, account, audience) }
	cfg.Annotations = func(ctx context.Context) (map[string]string, error) {
		place, err := a.places.Acquire(ctx, account.Namespace, 1)
		if err != nil {
			return nil, accountError(account, err)
		}
		defer place.Release()
		found, err := a.source.Account(ctx, account)
		if err != nil {
			return nil, accountError(account, err)
		}
		return maps.Clone(found.Annotations), nil
	}
}

// token returns a token of an account for an audience. An empty audience is refused: the token would be valid for the API server itself.
func (a *Accounts) token(ctx context.Context, account kube.Key, audience string) (string, error) {
	if audience == "" {
		return "", event.NewError(event.Permanent, provider.LabelOther, "no audience for a token of the service account", nil)
	}
	place, err := a.places.Acquire(ctx, account.Namespace, 1)
	if err != nil {
		return "", accountError(account, err)
	}
	defer place.Release()
	found, err := a.source.Account(ctx, account)
	if err != nil {
		return "", accountError(account, err)
	}
	key := issuedFor{account, string(found.UID), audience}
	now := time.Now()
	if kept, ok := a.tokens.get(key); ok && now.Before(kept.renew) {
		return kept.value, nil
	}
	value, ends, err := a.source.Token(ctx, account, audience)
	if err != nil {
		return "", accountError(account, err)
	}
	a.tokens.add(key, keptToken{value: value, renew: now.Add(min(ends.Sub(now)*4/5, a.maxAge))})
	return value, nil
}

// accountError turns the API server's refusal into a text for the Provider's owner. The error is always retried, since it is corrected
// without an edit of the Provider.
func accountError(account kube.Key, err error) *event.Error {
	reason := "the cluster's API server gives no token of the service account"
	switch {
	case apierrors.IsNotFound(err):
		reason = fmt.Sprintf("there is no service account %q in the Provider's namespace, which spec.serviceAccountName names", account.Name)
	case apierrors.IsForbidden(err):
		reason = "the installation may not make tokens of service accounts: its administrator applies config/workload-identity"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return provider.Classify(err)
	}
	return event.NewError(event.Retry, provider.LabelRejected, reason, err)
}
