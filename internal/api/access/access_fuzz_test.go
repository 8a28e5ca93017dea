package access

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/internal/api"
	"notifier/internal/fair"
)

// A thing is granted or not. since has the times at which that changed: it is granted from the first one to the second, and so on.
type thing struct{ since []time.Time }

func (h *thing) is() bool { return len(h.since)%2 == 1 }

// was reports whether the thing was granted, or was not, at some time from a time until now.
func (h *thing) was(granted bool, from time.Time) bool {
	state := h.is()
	for _, at := range slices.Backward(h.since) {
		if state == granted || at.Before(from) {
			break
		}
		state = !state
	}
	return state == granted
}

// changing is a Kubernetes API whose tokens, rights and namespaces change, and which is slow, fails or hangs. It answers with what holds at the
// beginning or at the end of the request. Tokens are named after their user, and begin with "good" if they stay valid.
type changing struct {
	mu   sync.Mutex
	draw *rand.Rand
	// things are the tokens, by themselves, and the rights, by user and namespace. made has the times at which namespaces were made.
	things map[string]*thing
	made   map[string][]time.Time
	// granted is when a review last found a right in a namespace.
	granted map[string]time.Time
}

// answer returns what look returns at the beginning or the end of a request.
func answer[T any](ctx context.Context, c *changing, look func() T) (found T, err error) {
	c.mu.Lock()
	found = look()
	fate, takes, late := c.draw.IntN(20), time.Duration(1+c.draw.IntN(3<<(10*c.draw.IntN(2))))*time.Millisecond, c.draw.IntN(3) == 0
	c.mu.Unlock()
	if fate == 0 {
		takes = time.Hour
	}
	select {
	case <-ctx.Done():
		return found, ctx.Err()
	case <-time.After(takes):
	}
	if fate == 1 {
		return found, apierrors.NewServiceUnavailable("starting")
	}
	if late {
		c.mu.Lock()
		defer c.mu.Unlock()
		found = look()
	}
	return found, nil
}

type changingTokens struct{ *changing }

func (c changingTokens) Create(
	ctx context.Context, r *authenticationv1.TokenReview, _ metav1.CreateOptions,
) (*authenticationv1.TokenReview, error) {
	valid, err := answer(ctx, c.changing, c.things[r.Spec.Token].is)
	user := authenticationv1.UserInfo{Username: "user-" + r.Spec.Token[len(r.Spec.Token)-1:]}
	return &authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{Authenticated: valid, User: user}}, err
}

type changingRights struct{ *changing }

func (c changingRights) Create(
	ctx context.Context, r *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions,
) (*authorizationv1.SubjectAccessReview, error) {
	namespace := r.Spec.ResourceAttributes.Namespace
	allowed, err := answer(ctx, c.changing, c.things[r.Spec.User+" in "+namespace].is)
	if allowed && err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.granted[namespace] = time.Now()
	}
	return &authorizationv1.SubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: allowed}}, err
}

type changingNamespaces struct{ *changing }

func (c changingNamespaces) Get(ctx context.Context, name string, _ metav1.GetOptions) (*corev1.Namespace, error) {
	made, err := answer(ctx, c.changing, func() time.Time { return c.made[name][len(c.made[name])-1] })
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Time{Time: made}}}, err
}

// accessScene asks an Authority about a changing Kubernetes API.
type accessScene struct {
	*Authority
	t *testing.T
	c *changing
}

func newAccessScene(t *testing.T, seed uint64) accessScene {
	c := &changing{
		draw: rand.New(rand.NewPCG(seed, 1)), things: map[string]*thing{}, made: map[string][]time.Time{}, granted: map[string]time.Time{},
	}
	for i := range 2 {
		c.things[fmt.Sprint("good-", i)] = &thing{since: []time.Time{time.Now()}}
		c.things[fmt.Sprint("token-", i)] = &thing{}
		c.made[fmt.Sprint("team-", i)] = []time.Time{time.Now()}
		for j := range 2 {
			c.things[fmt.Sprintf("user-%d in team-%d", i, j)] = &thing{}
		}
	}
	a, _, _ := newAuthority(t, func(o *Options) {
		o.Tokens, o.Rights, o.Namespaces = changingTokens{c}, changingRights{c}, changingNamespaces{c}
	})
	return accessScene{a, t, c}
}

// check fails the test unless a thing was as it is said to be within a time.
func (s accessScene) check(name string, granted bool, within time.Duration) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if h := s.c.things[name]; !h.was(granted, time.Now().Add(-within)) {
		s.t.Errorf("%s is granted: %v, and was not so for %v", name, granted, time.Since(h.since[len(h.since)-1]))
	}
}

func (s accessScene) authenticate(ctx context.Context, token string, from netip.Addr) {
	switch _, err := s.Authenticate(ctx, token, from); {
	case err == nil:
		s.check(token, true, userFor)
	case errors.Is(err, api.ErrUnauthenticated):
		s.check(token, false, questionTimeout)
	case errors.Is(err, api.ErrBusy) && token[0] == 'g':
		s.t.Errorf("%s is told to wait", token)
	}
}

func (s accessScene) allowed(ctx context.Context, user, namespace string) {
	u := userOf(authenticationv1.UserInfo{Username: user})
	if allowed, err := s.Allowed(ctx, u, api.Right{Verb: "list", Resource: "alerts"}, namespace); err == nil {
		s.check(user+" in "+namespace, allowed, map[bool]time.Duration{true: allowedFor, false: questionTimeout}[allowed])
	}
}

// look asks when a namespace was made. The answer is no older than the last review before it that found a right there.
func (s accessScene) look(ctx context.Context, namespace string) {
	asked := time.Now()
	made, err := s.Made(ctx, namespace)
	if err != nil {
		return
	}
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	from := time.Now().Add(-allowedFor)
	if granted := s.c.granted[namespace]; granted.Before(asked) && granted.After(from) {
		from = granted
	}
	all := s.c.made[namespace]
	after := slices.IndexFunc(all, made.Before) // the one that was made next
	if !slices.ContainsFunc(all, made.Equal) || after >= 0 && all[after].Before(from) {
		s.t.Errorf("%s is the one made at %v, of %v; want one that was there at %v", namespace, made, all, from)
	}
}

// FuzzE6AnAnswerIsKeptForItsTimeOnly changes tokens, rights and namespaces while many ask about them, of a Kubernetes API that is slow, fails or
// hangs. Fails when a revoked token or right is good for longer than its time, when a new one is refused for longer, when a namespace is the one
// before although a right was found in it since, when a valid token costs its address something, or when something is remembered of the
// questions.
func FuzzE6AnAnswerIsKeptForItsTimeOnly(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			s := newAccessScene(t, seed)
			var asking sync.WaitGroup
			for range 500 {
				s.step(&asking)
				s.c.mu.Lock()
				pause := time.Duration(1+s.c.draw.IntN(1<<s.c.draw.IntN(12))) * time.Millisecond
				s.c.mu.Unlock()
				<-time.After(pause)
			}
			asking.Wait()
			<-time.After(questionTimeout)
			synctest.Wait()
			if s.asking.Len() > 0 || len(s.looks.newest) > 0 {
				t.Errorf("%d tenants keep places, %d namespaces are being read", s.asking.Len(), len(s.looks.newest))
			}
			if n := left(s.addresses, here); n != addressBurst {
				t.Errorf("the address of valid tokens has %d left", n)
			}
			<-time.After(time.Minute)
			if n, reserve := left(s.unknownBudget, struct{}{}), left(s.reserveBudget, struct{}{}); n != unknownBurst || reserve != reserveBurst {
				t.Errorf("the common budget has %d left, the reserve %d", n, reserve)
			}
		})
	})
}

// step changes something, or asks some questions.
func (s accessScene) step(asking *sync.WaitGroup) {
	s.c.mu.Lock()
	i, j, kind, asks := s.c.draw.IntN(2), s.c.draw.IntN(2), s.c.draw.IntN(20), 1+s.c.draw.IntN(4)
	patience := time.Duration(1+s.c.draw.IntN(8000)) * time.Millisecond
	token, user, namespace := fmt.Sprint("token-", i), fmt.Sprint("user-", i), fmt.Sprint("team-", j)
	switch kind {
	case 0:
		s.c.things[token].since = append(s.c.things[token].since, time.Now())
	case 1:
		right := s.c.things[user+" in "+namespace]
		right.since = append(right.since, time.Now())
	case 2:
		s.c.made[namespace] = append(s.c.made[namespace], time.Now())
	}
	s.c.mu.Unlock()
	if kind < 3 {
		return
	}
	for range asks {
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(s.t.Context(), patience)
			defer cancel()
			switch kind {
			case 3, 4, 5, 6, 7:
				s.authenticate(ctx, token, netip.AddrFrom4([4]byte{10, 0, 0, byte(j)}))
			case 8, 9:
				s.authenticate(ctx, fmt.Sprint("good-", i), here)
			case 10, 11, 12, 13, 14:
				s.allowed(ctx, user, namespace)
			default:
				s.look(ctx, namespace)
			}
		})
	}
}

// left uses up the budget of a key, and returns how much it was.
func left[K comparable](budgets *fair.Limiters[K], key K) (n int) {
	for budgets.Take(key, time.Now()) != nil {
		n++
	}
	return n
}
