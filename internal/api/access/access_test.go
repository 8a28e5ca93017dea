package access

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/internal/api"
)

// kubernetes answers reviews by its functions.
type kubernetes struct {
	mu     sync.Mutex
	token  func(authenticationv1.TokenReviewSpec) (authenticationv1.TokenReviewStatus, error)
	right  func(authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error)
	tokens []authenticationv1.TokenReviewSpec
	rights []authorizationv1.SubjectAccessReviewSpec
	// takes is the duration of a review.
	takes time.Duration
}

type tokens struct{ *kubernetes }

func (k tokens) Create(ctx context.Context, r *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	k.mu.Lock()
	k.tokens = append(k.tokens, r.Spec)
	status, err := k.token(r.Spec)
	k.mu.Unlock()
	return &authenticationv1.TokenReview{Status: status}, k.answer(ctx, err)
}

type rights struct{ *kubernetes }

func (k rights) Create(
	ctx context.Context, r *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions,
) (*authorizationv1.SubjectAccessReview, error) {
	k.mu.Lock()
	k.rights = append(k.rights, r.Spec)
	status, err := k.right(r.Spec)
	k.mu.Unlock()
	return &authorizationv1.SubjectAccessReview{Status: status}, k.answer(ctx, err)
}

func (k *kubernetes) answer(ctx context.Context, err error) error {
	if k.takes > 0 { // a timer that is due already may crash the race detector (golang/go#78156)
		select {
		case <-ctx.Done():
		case <-time.After(k.takes):
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// asked returns the numbers of token reviews and of access reviews.
func (k *kubernetes) asked() (tokens, rights int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.tokens), len(k.rights)
}

// set changes the answers.
func (k *kubernetes) set(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

// owner is the status of a valid token of jane's.
var owner = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{
	Username: "jane", UID: "7", Groups: []string{"devs"}, Extra: map[string]authenticationv1.ExtraValue{"scopes": {"a", "b"}},
}}

func newAuthority(t *testing.T, change func(*Options)) (*Authority, *kubernetes, *bytes.Buffer) {
	t.Helper()
	k := &kubernetes{
		token: func(s authenticationv1.TokenReviewSpec) (authenticationv1.TokenReviewStatus, error) {
			if !strings.HasPrefix(s.Token, "good") {
				return authenticationv1.TokenReviewStatus{Error: "invalid bearer token " + s.Token}, nil
			}
			return owner, nil
		},
		right: func(authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
			return authorizationv1.SubjectAccessReviewStatus{Allowed: true}, nil
		},
	}
	var lines bytes.Buffer
	o := Options{
		Tokens: tokens{k}, Rights: rights{k}, Namespaces: &namespaces{}, Log: slog.New(slog.NewTextHandler(&lines, nil)),
		Registerer: prometheus.NewRegistry(),
	}
	if change != nil {
		change(&o)
	}
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return a, k, &lines
}

var here = netip.MustParseAddr("192.0.2.1")

// Fails when an access review leaves out a part of the user's identity: an authorizer could decide by any of them.
func TestARightIsAskedAboutForAllThatAUserIs(t *testing.T) {
	a, k, _ := newAuthority(t, nil)
	u, err := a.Authenticate(t.Context(), "good", here)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Allowed(t.Context(), u, api.TestRight("slack"), "team-a"); err != nil {
		t.Fatal(err)
	}
	want := []authorizationv1.SubjectAccessReviewSpec{{
		User: "jane", UID: "7", Groups: []string{"devs"}, Extra: map[string]authorizationv1.ExtraValue{"scopes": {"a", "b"}},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: "team-a", Verb: "create", Group: "notification.toolkit.fluxcd.io", Resource: "providers", Subresource: "test", Name: "slack",
		},
	}}
	if diff := cmp.Diff(want, k.rights); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]authenticationv1.TokenReviewSpec{{Token: "good"}}, k.tokens); diff != "" {
		t.Error(diff)
	}
}

// Fails when an answer is kept for more than ten seconds, or not at all, or is kept from the end of its review on. Also fails when
// a right counts for another user, verb or namespace.
func TestAnswersAreBelievedForSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, k, _ := newAuthority(t, nil)
		k.takes = time.Second
		u, _ := a.Authenticate(t.Context(), "good", here)
		list := api.ListRight("deliveries")
		for range 3 {
			if ok, err := a.Allowed(t.Context(), u, list, "team-a"); !ok || err != nil {
				t.Fatal(ok, err)
			}
			if _, err := a.Authenticate(t.Context(), "good", here); err != nil {
				t.Fatal(err)
			}
		}
		if tokens, rights := k.asked(); tokens != 1 || rights != 1 {
			t.Errorf("%d questions about one token, %d about one right", tokens, rights)
		}
		k.set(func() {
			k.takes = 0
			k.token = func(authenticationv1.TokenReviewSpec) (authenticationv1.TokenReviewStatus, error) {
				return authenticationv1.TokenReviewStatus{}, nil
			}
			k.right = func(authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
				return authorizationv1.SubjectAccessReviewStatus{}, nil
			}
		})
		other := *u
		other.Key[0]++
		for _, ask := range []func() (bool, error){
			func() (bool, error) { return a.Allowed(t.Context(), &other, list, "team-a") },
			func() (bool, error) { return a.Allowed(t.Context(), u, list, "team-b") },
			func() (bool, error) { return a.Allowed(t.Context(), u, api.WatchRight("deliveries"), "team-a") },
			func() (bool, error) { return a.Allowed(t.Context(), u, api.ListRight("events"), "team-a") },
		} {
			if ok, err := ask(); ok || err != nil {
				t.Error("a right is another's", err)
			}
		}
		<-time.After(allowedFor - time.Second) // the review took a second
		if ok, _ := a.Allowed(t.Context(), u, list, "team-a"); ok {
			t.Error("a right is believed for longer than from the question on")
		}
		if _, err := a.Authenticate(t.Context(), "good", here); !errors.Is(err, api.ErrUnauthenticated) {
			t.Errorf("a token is believed for longer: %v", err)
		}
	})
}

// Fails when a right, or a token, that is revoked just after a watch was authorized can last for more than ten seconds.
func TestW5ARevokedRightEndsWithinTenSeconds(t *testing.T) {
	for what, believed := range map[string]time.Duration{"right": allowedFor, "token": userFor} {
		if longest := believed + questionTimeout + 3*time.Second; longest > 10*time.Second { // 3 s is api.recheckEvery
			t.Errorf("a %s can last %s", what, longest)
		}
	}
}

// Fails when a refusal is kept for as long as a right: a user would wait for a right that was just granted.
func TestARefusalIsKeptForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, k, _ := newAuthority(t, nil)
		granted := k.right
		k.right = func(authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
			return authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true}, nil
		}
		u := &api.User{Name: "jane"}
		for range 10 {
			if ok, err := a.Allowed(t.Context(), u, api.GetEvent, "team-a"); ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		for range 10 {
			if _, err := a.Authenticate(t.Context(), "bad", here); !errors.Is(err, api.ErrUnauthenticated) {
				t.Fatal(err)
			}
		}
		if tokens, rights := k.asked(); tokens != 1 || rights != 1 {
			t.Errorf("%d questions about one refused token, %d about one refused right", tokens, rights)
		}
		k.set(func() { k.right = granted })
		<-time.After(refusedFor)
		if ok, err := a.Allowed(t.Context(), u, api.GetEvent, "team-a"); !ok || err != nil {
			t.Errorf("after a moment: %t, %v", ok, err)
		}
	})
}

// W3. Fails when a token for another audience is accepted. Also fails when an audience is configured and a token is accepted from
// an authenticator that knows no audiences.
func TestW3ATokenIsForTheAudienceThatWasAskedFor(t *testing.T) {
	for _, tc := range []struct {
		asked, told []string
		good        bool
	}{
		{nil, nil, true},
		{nil, []string{"https://kubernetes.default.svc"}, true},
		{[]string{"notifier"}, []string{"notifier"}, true},
		{[]string{"notifier", "other"}, []string{"x", "other"}, true},
		{[]string{"notifier"}, []string{"vault"}, false},
		{[]string{"notifier"}, nil, false},
	} {
		a, k, _ := newAuthority(t, func(o *Options) { o.Audiences = tc.asked })
		k.token = func(s authenticationv1.TokenReviewSpec) (authenticationv1.TokenReviewStatus, error) {
			if diff := cmp.Diff(tc.asked, s.Audiences); diff != "" {
				t.Error(diff)
			}
			status := owner
			status.Audiences = tc.told
			return status, nil
		}
		if _, err := a.Authenticate(t.Context(), "good", here); (err == nil) != tc.good {
			t.Errorf("asked for %v, told %v: %v", tc.asked, tc.told, err)
		}
	}
	for what, status := range map[string]authenticationv1.TokenReviewStatus{
		"without a name":             {Authenticated: true},
		"who is not authenticated":   {User: owner.User},
		"of an answer with an error": {User: owner.User, Error: "expired"},
	} {
		a, k, _ := newAuthority(t, nil)
		k.token = func(authenticationv1.TokenReviewSpec) (authenticationv1.TokenReviewStatus, error) { return status, nil }
		if _, err := a.Authenticate(t.Context(), "good", here); err == nil {
			t.Errorf("a user %s is one", what)
		}
	}
}

// W4. Fails when a user or a right is granted, or refused, without an answer, or the failure is not counted, so that no alarm fires. Also fails
// when the error of the Kubernetes API, with its quotes, reaches a user or the log, or when the log has no remedy for a missing ClusterRole.
func TestW4WithoutAnAnswerNothingIsKnown(t *testing.T) {
	for name, cause := range map[string]error{
		"refused": errors.New("dial tcp 10.0.0.1: good-secret"), "denied": apierrors.NewForbidden(authenticationv1.Resource("tokenreviews"), "", errors.New("good-secret")),
	} {
		a, k, lines := newAuthority(t, func(o *Options) { o.Namespaces = &namespaces{err: cause} })
		k.token = func(authenticationv1.TokenReviewSpec) (authenticationv1.TokenReviewStatus, error) {
			return owner, cause
		}
		k.right = func(authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
			return authorizationv1.SubjectAccessReviewStatus{Allowed: true}, cause
		}
		if _, err := a.Authenticate(t.Context(), "good-secret", here); !errors.Is(err, api.ErrUnavailable) {
			t.Errorf("%s: token: %v", name, err)
		}
		if ok, err := a.Allowed(t.Context(), &api.User{Name: "jane"}, api.GetEvent, "team-a"); ok || !errors.Is(err, api.ErrUnavailable) {
			t.Errorf("%s: right: %t, %v", name, ok, err)
		}
		if made, err := a.Made(t.Context(), "team-a"); !made.IsZero() || !errors.Is(err, api.ErrUnavailable) {
			t.Errorf("%s: namespace: %s, %v", name, made, err)
		}
		text := lines.String()
		if strings.Contains(text, "secret") || !strings.Contains(text, "TokenReview") || strings.Contains(text, "apply config/api") != apierrors.IsForbidden(cause) {
			t.Errorf("%s: the log says %s", name, text)
		}
		if tokens, rights := testutil.ToFloat64(a.metrics.tokens.failed), testutil.ToFloat64(a.metrics.rights.failed); tokens != 1 || rights != 2 {
			t.Errorf("%s: %g failed reviews of tokens and %g of rights are counted", name, tokens, rights)
		}
		k.set(func() {
			k.token = func(authenticationv1.TokenReviewSpec) (authenticationv1.TokenReviewStatus, error) { return owner, nil }
		})
		if _, err := a.Authenticate(t.Context(), "good-secret", here); err != nil {
			t.Errorf("%s: afterwards: %v", name, err)
		}
	}
}

// Fails when a review that hangs is waited for, or when it is cancelled for all callers because one of them has left.
func TestAQuestionIsSharedAndBoundedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, k, _ := newAuthority(t, nil)
		k.takes = 2 * time.Second
		hasty, cancel := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		asking.Go(func() {
			if _, err := a.Authenticate(hasty, "good", here); !errors.Is(err, context.Canceled) {
				t.Errorf("who has gone: %v", err)
			}
		})
		synctest.Wait()
		for range 10 {
			asking.Go(func() {
				if _, err := a.Authenticate(t.Context(), "good", here); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		cancel()
		asking.Wait()
		if tokens, _ := k.asked(); tokens != 1 {
			t.Errorf("%d questions", tokens)
		}
		k.takes = time.Hour
		begin := time.Now()
		if _, err := a.Authenticate(t.Context(), "good-other", here); !errors.Is(err, api.ErrUnavailable) || time.Since(begin) != questionTimeout {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
	})
}

// W5. Fails when a right that a user had by a group is kept after a review of the token says that the user is not in the group any more: a watch
// would last for up to fourteen seconds.
func TestW5ARightEndsWithTheGroupThatItWasBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, k, _ := newAuthority(t, nil)
		is := owner
		k.token = func(authenticationv1.TokenReviewSpec) (authenticationv1.TokenReviewStatus, error) { return is, nil }
		k.right = func(s authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
			return authorizationv1.SubjectAccessReviewStatus{Allowed: len(s.Groups) > 0}, nil
		}
		allowed := func() bool {
			u, err := a.Authenticate(t.Context(), "good", here)
			if err != nil {
				t.Fatal(err)
			}
			ok, err := a.Allowed(t.Context(), u, api.WatchRight("deliveries"), "team-a")
			if err != nil {
				t.Fatal(err)
			}
			return ok
		}
		if _, err := a.Authenticate(t.Context(), "good", here); err != nil {
			t.Fatal(err)
		}
		k.set(func() { is.User.Groups = nil })
		<-time.After(userFor - time.Millisecond)
		if !allowed() {
			t.Fatal("the group is forgotten before its time")
		}
		<-time.After(time.Millisecond) // the token is reviewed again
		if allowed() {
			t.Error("a right by a group outlasts the group")
		}
	})
}
