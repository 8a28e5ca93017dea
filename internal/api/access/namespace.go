package access

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/internal/api"
)

// madeFlight begins the key of the reads of a namespace.
const madeFlight = "namespace "

// looks has the beginning of the newest read of each namespace that is being read, unless its answer is not to be kept.
type looks struct {
	mu     sync.Mutex
	newest map[string]*time.Time
}

// begin begins a read of a namespace.
func (l *looks) begin(namespace string) (began *time.Time) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.newest[namespace] = &now
	return &now
}

// end ends the read that began, and calls keep if its answer may be kept.
func (l *looks) end(namespace string, began *time.Time, keep func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.newest[namespace] == began {
		keep()
		delete(l.newest, namespace)
	}
}

// forget calls drop for the answer that is kept. No answer of a read of the namespace that is under way is kept after it.
func (l *looks) forget(namespace string, drop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.newest, namespace)
	drop()
}

// forgetMade has the next Made read a namespace in which somebody was just found to have a right. It may be another one than it was a moment
// ago, and whoever has a right in that may not see what is from before.
func (a *Authority) forgetMade(namespace string) {
	a.flights.Forget(madeFlight + namespace)
	a.looks.forget(namespace, func() { a.made.Forget(namespace) })
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
	began := a.looks.begin(namespace)
	found, err := a.options.Namespaces.Get(ctx, namespace, metav1.GetOptions{})
	a.looks.end(namespace, began, func() {
		if err == nil {
			a.made.Put(namespace, found.CreationTimestamp.Time, began.Add(allowedFor))
		}
	})
	switch {
	case apierrors.IsNotFound(err):
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, a.failed(ctx, a.metrics.rights, "Namespace", err)
	}
	return found.CreationTimestamp.Time, nil
}
