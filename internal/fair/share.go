package fair

import (
	"errors"
	"time"

	"golang.org/x/time/rate"
)

// maxSharing bounds the namespaces whose use of a Share is remembered. One that is forgotten has its whole share again.
const maxSharing = 1 << 14

// ShareOptions say how much processor time may be used. All are times within a Window.
type ShareOptions struct {
	// Window is the time over which use is counted. What was used is forgiven evenly: a Namespace of 1s in a Window of 4s is a quarter of
	// one processor.
	Window time.Duration
	// Namespace is what one namespace may use, also at once.
	Namespace time.Duration
	// Total is what all namespaces together may use. Zero means no bound.
	Total time.Duration
	// Reserve is what a namespace may use although Total is used up: a namespace that needs no more is not the cause.
	Reserve time.Duration
}

func (o ShareOptions) validate() error {
	if o.Window <= 0 || o.Namespace <= 0 || o.Total < 0 || o.Reserve < 0 || o.Reserve > o.Namespace {
		return errors.New("a share needs a window, a time for each namespace, and a reserve within that")
	}
	return nil
}

// Share divides processor time among namespaces. The work itself is the caller's: ask Left for how long it may run, or Wait for when, run
// it, and tell Spend how long it took. What is under way at the same time is not counted until it is spent, so where that matters work
// runs one at a time, or within a Capacity.
type Share struct {
	options ShareOptions
	// The tokens are microseconds. Work is paid for when it is done, so that a bucket may be overdrawn.
	each  *Limiters[string]
	total *rate.Limiter // nil for no bound
}

// NewShare returns a share that is not used. The error says which option is at fault.
func NewShare(o ShareOptions) (*Share, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Share{options: o, each: NewLimiters[string](perSecond(o.Namespace, o.Window), burst(o.Namespace), maxSharing)}
	if o.Total > 0 {
		s.total = rate.NewLimiter(perSecond(o.Total, o.Window), burst(o.Total))
	}
	return s, nil
}

// Left returns for how long work of a namespace may run now. It is zero or less when the share is used up.
func (s *Share) Left(namespace string) time.Duration {
	now := time.Now()
	own := balance(s.each.of(namespace), now)
	if s.total != nil && balance(s.total, now) <= 0 {
		return own - (s.options.Namespace - s.options.Reserve)
	}
	return own
}

// Wait returns how long it takes until Left is above zero, if nothing is spent meanwhile.
func (s *Share) Wait(namespace string) time.Duration {
	now := time.Now()
	own := s.each.of(namespace)
	wait := until(own, now, 0)
	if s.total != nil {
		wait = max(wait, min(until(s.total, now, 0), until(own, now, s.options.Namespace-s.options.Reserve)))
	}
	return wait
}

// Spend counts what work of a namespace took. One piece of work counts for at most a Window, so that a machine that stood still is
// forgiven.
func (s *Share) Spend(namespace string, took time.Duration) {
	now := time.Now()
	took = min(took, s.options.Window)
	charge(s.each.of(namespace), now, took)
	if s.total != nil {
		charge(s.total, now, took)
	}
}

// Heavy reports whether a namespace has lately used more than its Reserve.
func (s *Share) Heavy(namespace string) bool {
	return s.options.Namespace-balance(s.each.of(namespace), time.Now()) > s.options.Reserve
}

func burst(t time.Duration) int { return max(1, int(t.Microseconds())) }

// perSecond is the rate in microseconds a second at which a time is there again after a window.
func perSecond(t, window time.Duration) rate.Limit {
	return rate.Limit(float64(burst(t)) / window.Seconds())
}

// balance is what is left of a bucket, negative when it is overdrawn.
func balance(l *rate.Limiter, now time.Time) time.Duration {
	return time.Duration(l.TokensAt(now) * float64(time.Microsecond))
}

// until is how long it takes until more than some time is left of a bucket.
func until(l *rate.Limiter, now time.Time, more time.Duration) time.Duration {
	missing := more - balance(l, now)
	if missing < 0 {
		return 0
	}
	missing += time.Microsecond
	return time.Duration(missing.Seconds() * float64(time.Second/time.Microsecond) / float64(l.Limit()) * float64(time.Second))
}

// charge takes a time from a bucket, which is overdrawn if that is more than it has. One reservation is of no more than the burst.
func charge(l *rate.Limiter, now time.Time, took time.Duration) {
	for left := int(took.Microseconds()); left > 0; left -= l.Burst() {
		l.ReserveN(now, min(left, l.Burst()))
	}
}
