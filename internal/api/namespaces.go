package api

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"notifier/internal/event/view"
)

const (
	// maxChecked bounds the namespaces that are checked for one request.
	maxChecked = 500
	// checksAtOnce bounds the concurrent checks of one user, maxChecks those of all.
	checksAtOnce = 4
	maxChecks    = 16
	// namespacesFor is how long a result is kept. With the time for which a right is kept it is within the ten seconds after which a revoked
	// right must have ended.
	namespacesFor = 5 * time.Second
	// maxAnswers bounds the users whose result is kept.
	maxAnswers = 1024
	// checkTimeout bounds the checks of one request. The others are left out. With the time for which a right is kept it is within the same ten
	// seconds.
	checkTimeout = 6 * time.Second
)

// errNoTime says that checkTimeout is over.
var errNoTime = errors.New("no time for further checks")

// Namespaces returns the namespaces with Providers, Alerts or Receivers in which a user may list deliveries. The namespace of a
// service account is the first, even without such objects. A user has one search at a time, and its result is kept for a while.
func (s *Service) Namespaces(ctx context.Context, u *User) (view.Namespaces, error) {
	line, ok := s.limits.lines.TryAcquire(u.Tenant(), 1) // a user's searches wait for each other
	if !ok {
		return view.Namespaces{}, ErrBusy
	}
	defer line.Release()
	use, err := s.limits.searches.Acquire(ctx, u.Tenant(), 1)
	if err != nil {
		return view.Namespaces{}, err
	}
	defer use.Release()
	if known, ok := s.found.Get(u.Key); ok {
		return known, nil
	}
	until := time.Now().Add(namespacesFor)
	found, err := s.search(ctx, u)
	if err != nil {
		return view.Namespaces{}, err
	}
	s.found.Put(u.Key, found, until)
	return found, nil
}

func (s *Service) search(ctx context.Context, u *User) (view.Namespaces, error) {
	all, err := s.options.Authority.Allowed(ctx, u, ListRight(view.Deliveries), "")
	if err != nil {
		return view.Namespaces{}, err
	}
	candidates := ownFirst(s.options.Objects.Namespaces(), u.Namespace())
	if all {
		return view.Namespaces{Items: candidates}, nil
	}
	items, whole, err := s.check(ctx, u, candidates[:min(len(candidates), maxChecked)])
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
func (s *Service) check(ctx context.Context, u *User, candidates []string) (items []string, whole bool, err error) {
	bounded, cancel := context.WithTimeoutCause(ctx, checkTimeout, errNoTime)
	defer cancel()
	group, ctx := errgroup.WithContext(bounded)
	group.SetLimit(checksAtOnce)
	allowed := make([]bool, len(candidates))
	for i, namespace := range candidates {
		group.Go(func() error {
			use, err := s.limits.checks.Acquire(ctx, 1)
			if err != nil {
				return err
			}
			defer use.Release()
			allowed[i], err = s.options.Authority.Allowed(ctx, u, ListRight(view.Deliveries), namespace)
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
