package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/internal/api"
	"notifier/internal/event/view"
)

// namespaces has one namespace, unless made is zero, or answers with an error.
type namespaces struct {
	made time.Time
	err  error
	got  int
}

func (n *namespaces) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Namespace, error) {
	n.got++
	if n.err == nil && n.made.IsZero() {
		return nil, apierrors.NewNotFound(corev1.Resource("namespaces"), name)
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Time{Time: n.made}}}, n.err
}

// W2. Fails when a namespace that was deleted and made again counts as the one before for longer than ten seconds, or at all where it was
// looked for in between. Also fails when each question is a request, or when without an answer a namespace counts as old.
func TestW2ANamespaceThatIsMadeAgainIsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := &namespaces{made: time.Now()}
		a, _, _ := newAuthority(t, func(o *Options) { o.Namespaces = known })
		want := func(made time.Time, err error) {
			t.Helper()
			if got, e := a.Made(t.Context(), "team-a"); !got.Equal(made) || !errors.Is(e, err) {
				t.Errorf("made %s, %v, want %s, %v", got, e, made, err)
			}
		}
		for range 100 {
			want(known.made, nil)
		}
		if known.got != 1 {
			t.Errorf("%d requests", known.got)
		}
		<-time.After(allowedFor)
		known.made = time.Time{}
		want(time.Time{}, nil)
		known.made = time.Now()
		want(known.made, nil)
		<-time.After(allowedFor)
		known.err = errors.New("no answer")
		want(time.Time{}, api.ErrUnavailable)
	})
}

// W2. Fails when a user who was given a right in a namespace that was made again is shown, for seconds, what is from before: another had just
// looked at the namespace of that name.
func TestW2ARightInANamespaceThatIsMadeAgainIsNotOneInTheNamespaceBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := &namespaces{made: time.Now()}
		a, _, _ := newAuthority(t, func(o *Options) { o.Namespaces = known })
		if _, err := a.Made(t.Context(), "team-a"); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		known.made = time.Now()
		if allowed, err := a.Allowed(t.Context(), &api.User{Name: "jane"}, api.GetDelivery, "team-a"); err != nil || !allowed {
			t.Fatalf("allowed %t, %v", allowed, err)
		}
		if got, err := a.Made(t.Context(), "team-a"); err != nil || !got.Equal(known.made) {
			t.Errorf("made %s, %v, want %s", got, err, known.made)
		}
	})
}

// W5. Fails when the list of a user's namespaces has one for more than ten seconds after the right to it is revoked: the list is kept, and the
// right that it was made by may have been kept before.
func TestW5AListOfNamespacesEndsWithTheRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		revoked := false
		a, k, _ := newAuthority(t, nil)
		k.right = func(s authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
			return authorizationv1.SubjectAccessReviewStatus{Allowed: s.ResourceAttributes.Namespace == "team-a" && !revoked}, nil
		}
		service, err := api.New(api.Options{
			Authority: a, Store: struct{ api.Store }{}, Worker: struct{ api.Worker }{}, Explainer: struct{ api.Explainer }{}, Objects: ofTeamA{},
			Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		u := &api.User{Name: "jane"}
		if ok, err := a.Allowed(t.Context(), u, api.ListRight(view.Deliveries), "team-a"); !ok || err != nil {
			t.Fatal(ok, err)
		}
		k.set(func() { revoked = true })
		for _, tc := range []struct {
			after time.Duration
			want  int
		}{{allowedFor - time.Millisecond, 1}, {10*time.Second - allowedFor, 0}} {
			<-time.After(tc.after)
			if found, err := service.Namespaces(t.Context(), u); err != nil || len(found.Items) != tc.want {
				t.Errorf("%s later: %v, %v, want %d", tc.after, found.Items, err, tc.want)
			}
		}
	})
}

// ofMany are objects of team-a and of more namespaces than there is time to look at.
type ofMany struct{ api.Objects }

func (ofMany) Namespaces() []string {
	all := []string{"team-a"}
	for i := range 100 {
		all = append(all, fmt.Sprint("team-b", i))
	}
	return all
}

// W5. Fails when the list of a user's namespaces comes more than ten seconds after a right in it was revoked, because the Kubernetes API answers
// late about the others.
func TestW5ASlowListOfNamespacesEndsWithTheRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, k, _ := newAuthority(t, nil)
		k.right = func(s authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
			return authorizationv1.SubjectAccessReviewStatus{Allowed: s.ResourceAttributes.Namespace == "team-a"}, nil
		}
		service, err := api.New(api.Options{
			Authority: a, Store: struct{ api.Store }{}, Worker: struct{ api.Worker }{}, Explainer: struct{ api.Explainer }{}, Objects: ofMany{},
			Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		u := &api.User{Name: "jane"}
		allowed := func(namespace string, want bool) {
			if ok, err := a.Allowed(t.Context(), u, api.ListRight(view.Deliveries), namespace); ok != want || err != nil {
				t.Fatal(ok, err)
			}
		}
		allowed("team-a", true)
		revoked := time.Now() // right after the review
		<-time.After(allowedFor - refusedFor)
		allowed("", false)
		k.set(func() { k.takes = questionTimeout - time.Second/10 })
		<-time.After(refusedFor - time.Millisecond)
		found, err := service.Namespaces(t.Context(), u)
		if took := time.Since(revoked); err != nil || len(found.Items) > 0 && took > 10*time.Second {
			t.Errorf("%s later: %v, %v", took, found.Items, err)
		}
		<-time.After(questionTimeout) // the reviews under way
	})
}

// slowNamespaces answers each read with the namespace as it was when the read began, once it may go on.
type slowNamespaces struct {
	namespaces
	goOn chan struct{}
}

func (n *slowNamespaces) Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.Namespace, error) {
	found, err := n.namespaces.Get(ctx, name, o)
	<-n.goOn
	return found, err
}

// W2. Fails when a user who was given a right in a namespace that was made again is shown, for seconds, what is from before: another's look at
// the namespace before was still under way.
func TestW2ALookAtTheNamespaceBeforeIsNotKeptForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := &slowNamespaces{namespaces: namespaces{made: time.Now()}, goOn: make(chan struct{})}
		a, _, _ := newAuthority(t, func(o *Options) { o.Namespaces = known })
		before := make(chan error)
		go func() {
			_, err := a.Made(t.Context(), "team-a")
			before <- err
		}()
		<-time.After(time.Second)
		synctest.Wait()
		known.made = time.Now()
		if allowed, err := a.Allowed(t.Context(), &api.User{Name: "jane"}, api.GetDelivery, "team-a"); err != nil || !allowed {
			t.Fatalf("allowed %t, %v", allowed, err)
		}
		close(known.goOn)
		if err := <-before; err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got, err := a.Made(t.Context(), "team-a"); err != nil || !got.Equal(known.made) {
				t.Errorf("made %s, %v, want %s", got, err, known.made)
			}
		}
		if known.got != 2 {
			t.Errorf("%d requests, want 2", known.got)
		}
	})
}

type ofTeamA struct{ api.Objects }

func (ofTeamA) Namespaces() []string { return []string{"team-a"} }
