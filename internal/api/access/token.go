package access

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/internal/api"
	"notifier/internal/fair"
)

// Authenticate returns the owner of a token that was sent from an address.
func (a *Authority) Authenticate(ctx context.Context, token string, from netip.Addr) (*api.User, error) {
	key := sha256.Sum256([]byte(token))
	if u, ok := a.users.Get(key); ok {
		return u, nil
	}
	if _, ok := a.unknown.Get(key); ok {
		return nil, api.ErrUnauthenticated
	}
	asked, err := a.shared(ctx, "token "+string(key[:]), func(ctx context.Context) (any, error) {
		return a.review(ctx, token, key, from)
	})
	if err != nil {
		return nil, err
	}
	return asked.(*api.User), nil
}

// review makes a token review within the budgets.
func (a *Authority) review(ctx context.Context, token string, key tokenKey, from netip.Addr) (*api.User, error) {
	now := time.Now()
	charged, ok := a.charge(key, from, now)
	if !ok {
		a.metrics.tokens.over.Inc()
		return nil, api.ErrBusy
	}
	answer, err := a.options.Tokens.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: a.options.Audiences},
	}, metav1.CreateOptions{})
	if err != nil {
		refund(charged)
		return nil, a.failed(ctx, a.metrics.tokens, "TokenReview", err)
	}
	if !a.good(answer.Status) {
		a.metrics.tokens.refused.Inc()
		a.users.Forget(key)
		a.unknown.Put(key, struct{}{}, now.Add(refusedFor))
		a.failing.Put(from, struct{}{}, time.Now().Add(failingFor))
		return nil, api.ErrUnauthenticated
	}
	a.metrics.tokens.granted.Inc()
	u := userOf(answer.Status.User)
	if oldest, forget := a.owned.add(u.Tenant(), key); forget {
		// It costs as much as an invalid token: else a tenant would have many reviewed again and again, each new since it was forgotten.
		a.users.Forget(oldest)
		a.failing.Put(from, struct{}{}, time.Now().Add(failingFor))
	} else {
		refund(charged)
	}
	a.users.Put(key, u, now.Add(userFor))
	return u, nil
}

// charge takes the cost of a review: from the budget of tokens that were good before, or else from that of the address and the common
// one, or if that is empty, unless the address is failing, the reserve. The latter are refunded for a token that is valid and one of the
// few that are remembered of its tenant.
func (a *Authority) charge(key tokenKey, from netip.Addr, now time.Time) (charged []func(), ok bool) {
	if a.users.Had(key) {
		return nil, a.knownBudget.AllowN(now, 1)
	}
	address := a.addresses.Take(from, now)
	if address == nil {
		return nil, false
	}
	budgets := []*fair.Limiters[struct{}]{a.unknownBudget, a.reserveBudget}
	if _, failing := a.failing.Get(from); failing {
		budgets = budgets[:1]
	}
	for _, budget := range budgets {
		if all := budget.Take(struct{}{}, now); all != nil {
			return []func(){address, all}, true
		}
	}
	address()
	return nil, false
}

func refund(charged []func()) {
	for _, giveBack := range charged {
		giveBack()
	}
}

// good reports whether a token is valid for the configured audiences. An authenticator that knows no audiences returns none, and
// its tokens are for the API server alone.
func (a *Authority) good(s authenticationv1.TokenReviewStatus) bool {
	if !s.Authenticated || s.User.Username == "" {
		return false
	}
	return len(a.options.Audiences) == 0 ||
		slices.ContainsFunc(s.Audiences, func(is string) bool { return slices.Contains(a.options.Audiences, is) })
}

func userOf(info authenticationv1.UserInfo) *api.User {
	u := &api.User{
		Name: info.Username, UID: info.UID, Groups: info.Groups,
		Key: sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", info.Username, info.UID, info.Groups, info.Extra)),
	}
	for name, values := range info.Extra {
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[name] = values
	}
	return u
}
