package api

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"notifier/internal/fair"
)

const (
	// readTimeout bounds one read, waitTimeout the wait for a place, askTimeout what is asked of the worker.
	readTimeout = 10 * time.Second
	waitTimeout = 2 * time.Second
	askTimeout  = 15 * time.Second

	// userRate and userBurst bound what one user may ask, in requests a second and at once; askRate and askBurst what of it sends.
	userRate  = 50
	userBurst = 100
	askRate   = 1
	askBurst  = 20
	// maxUsers bounds the users of whom it is remembered how much they asked.
	maxUsers = 8192

	// maxReads bounds the reads at a time, userReads those of one user: reading competes with delivering for processor and disk.
	maxReads  = 4
	userReads = 2
	// maxWatches bounds the watches at a time, userWatches those of one user.
	maxWatches  = 256
	userWatches = 16
	// maxAnswerBytes bounds the answers that wait for their readers, userAnswerBytes those of one user. The largest has some two MiB.
	maxAnswerBytes  = 64 << 20
	userAnswerBytes = 8 << 20
)

// limits bound what users may ask. The service accounts of a namespace are one user: a tenant can make any number of them.
type limits struct {
	rate, asked    *fair.Limiters[string]
	reads, watches *fair.Capacities[string]
	// answers bounds the bytes of answers that are being sent.
	answers *fair.Capacities[string]
}

func newLimits() *limits {
	return &limits{
		rate:    fair.NewLimiters[string](userRate, userBurst, maxUsers),
		asked:   fair.NewLimiters[string](rate.Limit(askRate), askBurst, maxUsers),
		reads:   fair.NewCapacities[string](fair.NewCapacity(maxReads), userReads, 0),
		watches: fair.NewCapacities[string](fair.NewCapacity(maxWatches), userWatches, 0),
		answers: fair.NewCapacities[string](fair.NewCapacity(maxAnswerBytes), userAnswerBytes, 0),
	}
}

// read takes a place for a read of a user, and waits for one. The error is ErrBusy, or that of ctx.
func (l *limits) read(ctx context.Context, u *User) (release func(), err error) {
	return take(ctx, l.reads, u, 1)
}

// watch takes a place for a watch of a user.
func (l *limits) watch(ctx context.Context, u *User) (release func(), err error) {
	return take(ctx, l.watches, u, 1)
}

func take(ctx context.Context, c *fair.Capacities[string], u *User, n int64) (release func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	use, err := c.Acquire(waiting, u.tenant(), n)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, ErrBusy
	}
	return use.Release, nil
}
