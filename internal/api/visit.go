package api

import (
	"context"
	"time"
)

// visit is a user in a namespace.
type visit struct {
	service   *Service
	user      *User
	namespace string
}

// detail runs read in the user's turn if the user has some rights in the namespace. made is when the namespace was made.
func detail[T any](ctx context.Context, v visit, read func(ctx context.Context, made time.Time) (T, error), rights ...Right) (T, error) {
	var none T
	began := time.Now()
	made, err := v.service.enter(ctx, v.user, v.namespace, rights...)
	if err != nil {
		return none, err
	}
	item, err := inTurn(ctx, v.service, v.user, func(ctx context.Context) (T, error) { return read(ctx, made) })
	if err == nil {
		err = v.mayStill(ctx, began, rights...)
	}
	if err != nil {
		return none, err
	}
	return item, nil
}

// mayStill returns nil if the user still has the rights in the namespace that were checked at began. It checks them again if that was
// recheckEvery ago: a read and the wait for it take up to eleven seconds, and a revoked right must have ended within ten.
func (v visit) mayStill(ctx context.Context, began time.Time, rights ...Right) error {
	if time.Since(began) < recheckEvery {
		return nil
	}
	for _, r := range rights {
		if err := v.service.checkAgain(ctx, v.user, v.namespace, r); err != nil {
			return err
		}
	}
	return nil
}
