package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"notifier/internal/event/view"
)

// listed reads a page of a list if the user has the right. Concurrent waiting requests of one user for the same page are one
// read, so a page in many tabs, or a page that is requested again and again, costs one. A request joins a waiting read, never a read
// that has begun, so the answer is as new as the request.
func listed[T any](
	ctx context.Context, v visit, list view.List, q view.Query, read func(context.Context, string, view.Query) (view.Page[T], error),
) (view.Page[T], error) {
	s, u, namespace, began := v.service, v.user, v.namespace, time.Now()
	made, err := s.enter(ctx, u, namespace, ListRight(list))
	if err != nil {
		return view.Page[T]{}, err
	}
	q.Since = later(q.Since, made)
	key := fmt.Sprintf("%q %q %q %#v", u.Tenant(), namespace, list, q)
	for {
		page, err, _ := s.flights.Do(key, func() (any, error) {
			return inTurn(ctx, s, u, func(ctx context.Context) (view.Page[T], error) {
				s.flights.Forget(key)
				page, err := read(ctx, namespace, q)
				page.Items = slices.DeleteFunc(page.Items, func(item T) bool { return isOlder(item, made) })
				return page, err
			})
		})
		if errors.Is(err, context.Canceled) && ctx.Err() == nil {
			continue // the client of the request that was to read has disconnected
		}
		if err == nil {
			err = v.mayStill(ctx, began, ListRight(list))
		}
		if err != nil {
			return view.Page[T]{}, err
		}
		return page.(view.Page[T]), nil
	}
}
