package api

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"notifier/internal/fair"
)

const (
	// readTimeout bounds one read, waitTimeout the wait for a place, askTimeout a request to the worker.
	readTimeout = 10 * time.Second
	waitTimeout = time.Second
	askTimeout  = 15 * time.Second

	// userRate and userBurst bound the requests of one user, a second and at once; askRate and askBurst those of them that send.
	userRate  = 50
	userBurst = 100
	askRate   = 1
	askBurst  = 20
	// maxUsers bounds the users whose rates are remembered.
	maxUsers = 8192

	// maxReads bounds the reads at a time, userReads those of one user: reading competes with delivering for processor and disk.
	maxReads  = 2
	userReads = 1
	// userLine bounds the reads and the searches for namespaces of one user that are under way or wait. Further ones are refused at once.
	userLine = 8
	// readShare of each readWindow is for reading. A user may use half of that, and save it up for at most userSaved.
	readWindow = time.Second
	readShare  = readWindow / 5
	userSaved  = 10 * readWindow
	// userTime is the time to read that a user has saved up after userSaved.
	userTime = userSaved * readShare / readWindow / 2
	// longRead is the most that one read costs the share of all, so another's long search does not delay a waiting user for long.
	longRead = 50 * time.Millisecond
	// maxWatches bounds the watches at a time, userWatches those of one user. ownWatches of a user do not count among those of all.
	maxWatches  = 256
	userWatches = 16
	ownWatches  = 2
	// maxAnswerBytes bounds the answers that are being sent, userAnswerBytes those of one user. The largest list has some two MiB.
	// ownAnswerBytes of a user, a page of fifty items or two, do not count among those of all.
	maxAnswerBytes  = 64 << 20
	userAnswerBytes = 8 << 20
	ownAnswerBytes  = 128 << 10
)

// limits bound the use of the API by users. The service accounts of a namespace count as one user, since a tenant can create any
// number of them.
type limits struct {
	rate, asked    *fair.Limiters[string]
	reads, watches *fair.Capacities[string]
	// answers bounds the bytes of answers that are being sent.
	answers *fair.Capacities[string]
	// lines are the reads and the searches for namespaces of each user that are under way or wait.
	lines *fair.Capacities[string]
	// searches are those for namespaces, one of each user, and checks the rights that they ask about, of all together.
	searches *fair.Capacities[string]
	checks   *fair.Capacity
	// own is the reading time of each user, all that of all together.
	own, all *fair.Share
}

func newLimits() *limits {
	return &limits{
		lines:    fair.NewCapacities[string](nil, userLine, 0),
		rate:     fair.NewLimiters[string](userRate, userBurst, maxUsers),
		asked:    fair.NewLimiters[string](rate.Limit(askRate), askBurst, maxUsers),
		reads:    fair.NewCapacities[string](fair.NewCapacity(maxReads), userReads, 0),
		watches:  fair.NewCapacities[string](fair.NewCapacity(maxWatches), userWatches, ownWatches),
		answers:  fair.NewCapacities[string](fair.NewCapacity(maxAnswerBytes), userAnswerBytes, ownAnswerBytes),
		searches: fair.NewCapacities[string](nil, 1, 0),
		checks:   fair.NewCapacity(maxChecks),
		own:      fair.NewShare(fair.ShareOptions{Window: userSaved, Namespace: userTime}),
		all:      fair.NewShare(fair.ShareOptions{Window: readWindow, Namespace: readShare}),
	}
}

// everybody is the key under which all users share.
const everybody = ""

// read waits for the user's turn to read. A user with no time left gets the time of the next attempt. The error is ErrBusy, a copy of
// it with another RetryAfter, or that of ctx.
func (l *limits) read(ctx context.Context, u *User) (release func(answered bool), err error) {
	if wait := l.own.Wait(u.Tenant()); wait > 0 {
		return nil, busyFor(wait)
	}
	line, ok := l.lines.TryAcquire(u.Tenant(), 1)
	if !ok {
		return nil, ErrBusy
	}
	end, err := l.turn(ctx, u)
	if err != nil {
		line.Release()
		return nil, err
	}
	return func(answered bool) {
		end(answered)
		line.Release()
	}, nil
}

// turn waits for the user's turn. Users take turns, each with one read or answer to be made, and proceed while time is left for all. The
// time until release is charged to the user, but at most userTime of it unless the read was answered: the store stood still meanwhile, and a
// single read would have the user wait for the better part of a minute. The error is ErrBusy or that of ctx.
func (l *limits) turn(ctx context.Context, u *User) (release func(answered bool), err error) {
	leave, err := take(ctx, l.reads, u, 1)
	if err != nil {
		return nil, err
	}
	if err := fair.Sleep(ctx, l.all.Wait(everybody)); err != nil {
		leave()
		return nil, err
	}
	began := time.Now()
	return func(answered bool) {
		took := time.Since(began)
		if !answered {
			took = min(took, userTime)
		}
		l.own.Spend(u.Tenant(), took)
		l.all.Spend(everybody, min(took, longRead))
		leave()
	}, nil
}

// busyFor returns ErrBusy for a wait that is longer than a second.
func busyFor(wait time.Duration) *Error {
	seconds := (wait + time.Second - 1) / time.Second
	if seconds <= 1 {
		return ErrBusy
	}
	e := *ErrBusy
	e.RetryAfter = seconds * time.Second
	e.Text = fmt.Sprintf("too many requests; wait %d seconds and send fewer at a time", seconds)
	return &e
}

// take takes n places of a capacity for a user, or returns ErrBusy when they are not free within waitTimeout.
func take(ctx context.Context, c *fair.Capacities[string], u *User, n int64) (release func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	use, err := c.Acquire(waiting, u.Tenant(), n)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, ErrBusy
	}
	return use.Release, nil
}
