package access

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/internal/api"
)

// madeFlight begins the key of the reads of a namespace.
const madeFlight = "namespace "

// forgetMade has the next Made read a namespace in which somebody was just found to have a right. It may be another one than it was a moment
// ago, and whoever has a right in that may not see what is from before.
func (a *Authority) forgetMade(namespace string) {
	a.flights.Forget(madeFlight + namespace)
	a.made.Forget(namespace)
}

// Made returns when a namespace was made, zero if there is no such namespace. It is for namespaces in which a user has a right.
func (a *Authority) Made(ctx context.Context, namespace string) (time.Time, error) {
	if made, ok := a.made.Get(namespace); ok {
		return made, nil
	}
	made, err := a.shared(ctx, madeFlight+namespace, func(ctx context.Context) (any, error) { return a.look(ctx, namespace) })
	if err != nil {
		return time.Time{}, err
	}
	return made.(time.Time), nil
}

// look reads a namespace within the budget of access reviews. It keeps no answer that there is none: the next one may be somebody else's.
func (a *Authority) look(ctx context.Context, namespace string) (time.Time, error) {
	if err := a.rightBudget.Wait(ctx); err != nil {
		a.metrics.rights.over.Inc()
		return time.Time{}, api.ErrBusy
	}
	now := time.Now()
	found, err := a.options.Namespaces.Get(ctx, namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, a.failed(ctx, a.metrics.rights, "Namespace", err)
	}
	a.made.Put(namespace, found.CreationTimestamp.Time, now.Add(allowedFor))
	return found.CreationTimestamp.Time, nil
}
