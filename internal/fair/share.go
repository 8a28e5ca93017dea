package fair

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// maxSharing bounds the namespaces whose use of a Share is remembered. A forgotten namespace has its whole share again.
const maxSharing = 1 << 14

// ShareOptions say how much processor time may be used. All are times within a Window.
type ShareOptions struct {
	// Window is the time over which use counts. Use expires evenly: a Namespace of 1s in a Window of 4s is a quarter of one processor.
	Window time.Duration
	// Namespace bounds the use of one namespace, also at once.
	Namespace time.Duration
	// Total bounds the use of all namespaces together. Zero means no bound.
	Total time.Duration
	// Reserve is the use that a namespace has even when Total is used up: a namespace that needs no more is not the cause.
	Reserve time.Duration
}

// Share divides processor time among namespaces. The caller does the work: it asks Left for how long the work may run, or Wait for
// the delay before it, and reports the time to Spend. Work that is still running does not count. Where that matters, run one piece
// of work at a time, or within a Capacity.
type Share struct {
	options ShareOptions

	mu sync.Mutex
	// each has the namespaces that have spent something. A query about another namespace leaves no trace.
	each  *simplelru.LRU[string, account]
	total account
}

// account is the use that had not expired at a time.
type account struct {
	used time.Duration
	at   time.Time
}

// NewShare returns an unused share. It panics without a Window or a time for each Namespace, and if the Reserve exceeds the
// Namespace.
func NewShare(o ShareOptions) *Share {
	if o.Window <= 0 || o.Namespace <= 0 || o.Total < 0 || o.Reserve < 0 || o.Reserve > o.Namespace {
		panic("fair: a share needs a window, a time for each namespace, and a reserve within that")
	}
	return &Share{options: o, each: NewLRU[string, account](maxSharing)}
}

// Left returns for how long work of a namespace may run now. It is zero or less if the share is used up.
func (s *Share) Left(namespace string) time.Duration {
	own, total := s.used(namespace)
	if s.options.Total > 0 && total >= s.options.Total {
		return s.options.Reserve - own
	}
	return s.options.Namespace - own
}

// Wait returns the time until Left is above zero, if nothing is spent meanwhile.
func (s *Share) Wait(namespace string) time.Duration {
	o := s.options
	own, total := s.used(namespace)
	wait := o.until(own, o.Namespace, o.Namespace)
	if o.Total > 0 {
		wait = max(wait, min(o.until(total, o.Total, o.Total), o.until(own, o.Reserve, o.Namespace)))
	}
	return wait
}

// Spend adds the time that work of a namespace took. One piece of work counts for at most a Window, so a pause of the machine costs
// no more than that.
func (s *Share) Spend(namespace string, took time.Duration) {
	took = max(0, min(took, s.options.Window))
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	own, total := s.usedBy(namespace, now)
	s.each.Add(namespace, account{own + took, now})
	s.total = account{total + took, now}
}

// slow is the least time of work that Timed spends. Ordinary work takes some microseconds.
const slow = 100 * time.Microsecond

// Timed begins a piece of work of a namespace. The returned function ends it and spends its time, if that is at least slow.
func (s *Share) Timed(namespace string) (end func()) {
	began := time.Now()
	return func() {
		if took := time.Since(began); took >= slow {
			s.Spend(namespace, took)
		}
	}
}

// Heavy reports whether the use of a namespace, as far as it has not expired, is more than its Reserve.
func (s *Share) Heavy(namespace string) bool {
	own, _ := s.used(namespace)
	return own > s.options.Reserve
}

// used returns the use of a namespace, and of all together, that has not expired.
func (s *Share) used(namespace string) (own, total time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usedBy(namespace, time.Now())
}

// usedBy is used at the time now. The caller has locked mu.
func (s *Share) usedBy(namespace string, now time.Time) (own, total time.Duration) {
	if a, known := s.each.Get(namespace); known {
		own = s.options.unforgiven(a, now, s.options.Namespace)
	}
	return own, s.options.unforgiven(s.total, now, s.options.Total)
}

// unforgiven returns the part of an account that has not expired, if forgiven expires in each Window.
func (o ShareOptions) unforgiven(a account, now time.Time, forgiven time.Duration) time.Duration {
	return max(0, a.used-scaled(now.Sub(a.at), forgiven, o.Window))
}

// until returns the time until used is less than allowed, if forgiven expires in each Window.
func (o ShareOptions) until(used, allowed, forgiven time.Duration) time.Duration {
	if used < allowed {
		return 0
	}
	return scaled(used-allowed+time.Microsecond, o.Window, forgiven)
}

// scaled returns t * by / of.
func scaled(t, by, of time.Duration) time.Duration {
	return time.Duration(float64(t) * float64(by) / float64(of))
}
