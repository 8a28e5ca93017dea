package api

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"notifier/internal/api/brief"
	"notifier/internal/event/view"
	"notifier/internal/fair"
)

const (
	// maxChecked bounds the namespaces that are checked for one request.
	maxChecked = 500
	// checksAtOnce bounds the concurrent checks of one user, maxChecks those of all.
	checksAtOnce = 4
	maxChecks    = 16
	// namespacesFor is how long a result is kept.
	namespacesFor = 10 * time.Second
	// maxAnswers bounds the users whose result is kept.
	maxAnswers = 1024
	// checkTimeout bounds the checks of one request. The others are left out.
	checkTimeout = 10 * time.Second
)

// errNoTime says that checkTimeout is over.
var errNoTime = errors.New("no time for further checks")

// namespaces finds the namespaces of users, and keeps each result for a while.
type namespaces struct {
	checks *fair.Capacity
	users  *fair.Capacities[string]
	kept   *brief.Answers[[32]byte, view.Namespaces]
}

func newNamespaces() *namespaces {
	return &namespaces{
		checks: fair.NewCapacity(maxChecks), users: fair.NewCapacities[string](nil, 1, 0),
		kept: brief.New[[32]byte, view.Namespaces](maxAnswers),
	}
}

// of returns the namespaces of a user. A user has one search at a time.
func (n *namespaces) of(ctx context.Context, o Options, u *User) (view.Namespaces, error) {
	use, err := n.users.Acquire(ctx, u.Tenant(), 1)
	if err != nil {
		return view.Namespaces{}, err
	}
	defer use.Release()
	if known, ok := n.kept.Get(u.Key); ok {
		return known, nil
	}
	until := time.Now().Add(namespacesFor)
	found, err := n.search(ctx, o, u)
	if err != nil {
		return view.Namespaces{}, err
	}
	n.kept.Put(u.Key, found, until)
	return found, nil
}

func (n *namespaces) search(ctx context.Context, o Options, u *User) (view.Namespaces, error) {
	all, err := o.Authority.Allowed(ctx, u, ListRight(view.Deliveries), "")
	if err != nil {
		return view.Namespaces{}, err
	}
	candidates := ownFirst(o.Objects.Namespaces(), u.Namespace())
	if all {
		return view.Namespaces{Items: candidates}, nil
	}
	items, whole, err := n.check(ctx, o, u, candidates[:min(len(candidates), maxChecked)])
	return view.Namespaces{Items: items, Incomplete: !whole || len(candidates) > maxChecked}, err
}

// ownFirst returns a list of namespaces with a user's own first, even if it was not in the list.
func ownFirst(all []string, own string) []string {
	if own == "" {
		return slices.Clone(all)
	}
	rest := slices.DeleteFunc(slices.Clone(all), func(n string) bool { return n == own })
	return append([]string{own}, rest...)
}

// check returns the candidates in which a user may list deliveries, in the order of the candidates. whole is false if there was no time for
// some.
func (n *namespaces) check(ctx context.Context, o Options, u *User, candidates []string) (items []string, whole bool, err error) {
	bounded, cancel := context.WithTimeoutCause(ctx, checkTimeout, errNoTime)
	defer cancel()
	group, ctx := errgroup.WithContext(bounded)
	group.SetLimit(checksAtOnce)
	allowed := make([]bool, len(candidates))
	for i, namespace := range candidates {
		group.Go(func() error {
			use, err := n.checks.Acquire(ctx, 1)
			if err != nil {
				return err
			}
			defer use.Release()
			allowed[i], err = o.Authority.Allowed(ctx, u, ListRight(view.Deliveries), namespace)
			return err
		})
	}
	err = group.Wait()
	late := err != nil && errors.Is(context.Cause(bounded), errNoTime)
	if err != nil && !late {
		return nil, false, err
	}
	items = []string{}
	for i, namespace := range candidates {
		if allowed[i] {
			items = append(items, namespace)
		}
	}
	return items, !late, nil
}
