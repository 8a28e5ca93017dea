package access

import (
	"context"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/internal/api"
)

// Allowed reports whether a user has a right in a namespace. An empty namespace means all of them.
func (a *Authority) Allowed(ctx context.Context, u *api.User, r api.Right, namespace string) (bool, error) {
	q := question{u.Key, r, namespace}
	if allowed, known := a.known(q); known {
		return allowed, nil
	}
	waiting, cancel := context.WithTimeout(ctx, questionTimeout)
	defer cancel()
	use, err := a.asking.Acquire(waiting, u.Tenant(), 1)
	if err != nil {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		a.metrics.rights.over.Inc()
		return false, api.ErrBusy
	}
	defer use.Release()
	if allowed, known := a.known(q); known { // by a review that was under way
		return allowed, nil
	}
	key := fmt.Sprintf("right %x %q %q", q.who, q.right, q.namespace)
	answer, err := a.shared(ctx, key, func(ctx context.Context) (any, error) { return a.ask(ctx, u, q) })
	if err != nil {
		return false, err
	}
	return answer.(bool), nil
}

// known returns a kept answer, and whether there is one.
func (a *Authority) known(q question) (allowed, known bool) {
	if _, ok := a.allowed.Get(q); ok {
		return true, true
	}
	_, ok := a.denied.Get(q)
	return false, ok
}

// ask makes an access review within the budget.
func (a *Authority) ask(ctx context.Context, u *api.User, q question) (bool, error) {
	if err := a.rightBudget.Wait(ctx); err != nil {
		a.metrics.rights.over.Inc()
		return false, api.ErrBusy
	}
	now := time.Now()
	answer, err := a.options.Rights.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: specOf(u, q)}, metav1.CreateOptions{})
	if err != nil {
		return false, a.failed(ctx, a.metrics.rights, "SubjectAccessReview", err)
	}
	if answer.Status.Allowed && !answer.Status.Denied {
		a.metrics.rights.granted.Inc()
		a.forgetMade(q.namespace)
		a.allowed.Put(q, struct{}{}, now.Add(allowedFor))
		return true, nil
	}
	a.metrics.rights.refused.Inc()
	a.denied.Put(q, struct{}{}, now.Add(refusedFor))
	return false, nil
}

func specOf(u *api.User, q question) authorizationv1.SubjectAccessReviewSpec {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: u.Name, UID: u.UID, Groups: u.Groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: q.namespace, Verb: q.right.Verb, Group: api.Group, Resource: q.right.Resource, Subresource: q.right.Subresource,
			Name: q.right.Name,
		},
	}
	for name, values := range u.Extra {
		if spec.Extra == nil {
			spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		spec.Extra[name] = values
	}
	return spec
}

// reason returns the reason of an error of the Kubernetes API without the text of the error.
func reason(err error) string {
	if r := apierrors.ReasonForError(err); r != metav1.StatusReasonUnknown {
		return string(r)
	}
	return fmt.Sprintf("%T", err)
}
