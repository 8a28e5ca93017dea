package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"notifier/internal/event/view"
)

const (
	// recheckEvery is how often the right to a watch is asked about again. With the time for which an answer is believed, and that which
	// the question may take, it is within the ten seconds after which what was revoked must have ended.
	recheckEvery = 3 * time.Second
	// watchTime is how long a watch lasts at most. A client begins another one then.
	watchTime = 30 * time.Minute
)

// errWatchEnds ends a watch whose time is over.
var errWatchEnds = errors.New("the watch's time is over")

// follower is a user who may follow a list, until release.
type follower struct {
	service   *Service
	user      *User
	namespace string
	list      view.List
	release   func()
}

// follow returns a follower if the user may follow the list, and there is a place.
func (s *Service) follow(ctx context.Context, u *User, namespace string, l view.List) (*follower, error) {
	if !s.limits.rate.Allow(u.Tenant()) {
		return nil, ErrBusy
	}
	if err := s.authorize(ctx, u, namespace, WatchRight(l)); err != nil {
		return nil, err
	}
	release, err := s.limits.watch(ctx, u)
	if err != nil {
		return nil, err
	}
	return &follower{s, u, namespace, l, release}, nil
}

// run calls handle with each new item of the list, one at a time, until ctx ends, the user loses the right or their token, or handle fails.
// After half an hour it returns nil.
func (f *follower) run(ctx context.Context, handle func(item any) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return f.service.recheck(ctx, f.user, f.namespace, WatchRight(f.list)) })
	group.Go(func() error {
		if err := f.service.options.Store.Follow(ctx, f.namespace, f.list, handle); err != nil {
			return fmt.Errorf("follow: %w", err)
		}
		return errWatchEnds // so that the other ends as well
	})
	if err := group.Wait(); !errors.Is(err, errWatchEnds) {
		return err
	}
	return nil
}

// recheck returns when a user must not watch any longer: why, or errWatchEnds.
func (s *Service) recheck(ctx context.Context, u *User, namespace string, r Right) error {
	ticker := time.NewTicker(recheckEvery)
	defer ticker.Stop()
	ends := time.NewTimer(watchTime)
	defer ends.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ends.C:
			return errWatchEnds
		case <-ticker.C:
		}
		again, err := s.options.Authority.Authenticate(ctx, string(u.token), u.from)
		if err != nil {
			return err
		}
		if err := s.authorize(ctx, again, namespace, r); err != nil {
			return err
		}
	}
}

// selects reports whether an item is one of those of a query, apart from their time.
func selects(q view.Query, item any) bool {
	switch i := item.(type) {
	case view.Delivery:
		return (q.State == "" || q.State == i.State) && is(q.Provider, i.Provider) && is(q.Alert, i.Alert) && isObject(q.Object, i.Object)
	case view.Event:
		return isObject(q.Object, i.Object)
	case view.Webhook:
		return is(q.Receiver, i.Receiver)
	}
	return false
}

func is(wanted, name string) bool { return wanted == "" || wanted == name }

func isObject(wanted string, o view.Object) bool {
	return wanted == "" || strings.EqualFold(wanted, o.String())
}
