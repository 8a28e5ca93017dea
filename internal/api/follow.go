package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"notifier/internal/event/view"
)

const (
	// recheckEvery is the interval at which the right to a watch is checked again. With the time for which an answer is kept, and the
	// time of the check, it is within ten seconds. A revoked right must have ended by then.
	recheckEvery = 3 * time.Second
	// recheckTime bounds a check, of the token and the right together.
	recheckTime = 3 * time.Second
	// watchTime bounds a watch. A client then begins another one.
	watchTime = 30 * time.Minute
)

// errWatchEnds ends a watch after watchTime.
var errWatchEnds = errors.New("the watch's time is over")

// follow calls handle with each new item of a list, one at a time, if the user may follow it and has fewer watches than the bound. It ends
// with an error when ctx ends, the user loses the right or the token, or handle fails. After half an hour it returns nil.
func (s *Service) follow(ctx context.Context, u *User, namespace string, l view.List, handle func(item any) error) error {
	made, err := s.enter(ctx, u, namespace, WatchRight(l))
	if err != nil {
		return err
	}
	release, err := take(ctx, s.limits.watches, u, 1)
	if err != nil {
		return err
	}
	defer release()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.recheck(ctx, u, namespace, WatchRight(l)) })
	group.Go(func() error {
		own := func(item any) error {
			if isOlder(item, made) {
				return nil
			}
			return handle(item)
		}
		if err := s.options.Store.Follow(ctx, namespace, l, own); err != nil {
			return fmt.Errorf("follow: %w", err)
		}
		return errWatchEnds // so that recheck ends as well
	})
	if err := group.Wait(); !errors.Is(err, errWatchEnds) {
		return err
	}
	return nil
}

// recheck returns once a user must not watch any longer: the refusal, or errWatchEnds after watchTime.
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
		if err := s.checkAgain(ctx, u, namespace, r); err != nil {
			return err
		}
	}
}

// checkAgain checks the token and the right of a user again. Without an answer in time it returns ErrUnavailable.
func (s *Service) checkAgain(ctx context.Context, u *User, namespace string, r Right) error {
	ctx, cancel := context.WithTimeoutCause(ctx, recheckTime, ErrUnavailable)
	defer cancel()
	again, err := s.owner(ctx, string(u.token), u.from)
	if err == nil {
		err = s.authorize(ctx, again, namespace, r)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
