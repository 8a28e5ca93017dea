package watch

import (
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// unseen is the first of the seeds whose watches leave out changes for a time and end then, whose object is deleted and made again, whose store
// of states is slow and fails to answer, and whose bus is slow and forgets answers.
const unseen = 1 << 21

// watches are those of a cluster, which leave out changes at times and then end.
type watches struct {
	mu      sync.Mutex
	blind   bool
	expired chan struct{}
	// hidden are the times in which changes were left out.
	hidden []period
}

// period is a time with its end, zero if it goes on.
type period struct{ from, to time.Time }

// of has the watches of a cluster be these.
func (i *watches) of(w *world) {
	i.expired = make(chan struct{})
	w.expiring = func() <-chan struct{} {
		i.mu.Lock()
		defer i.mu.Unlock()
		return i.expired
	}
	w.hides = func() bool {
		i.mu.Lock()
		defer i.mu.Unlock()
		return i.blind
	}
}

// see begins or ends the time in which changes are left out. Its end ends all watches.
func (i *watches) see(sees bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.blind == !sees {
		return
	}
	i.blind = !sees
	if i.blind {
		i.hidden = append(i.hidden, period{from: time.Now()})
		return
	}
	i.hidden[len(i.hidden)-1].to = time.Now()
	close(i.expired)
	i.expired = make(chan struct{})
}

// hid reports whether changes were left out not long before a time.
func (i *watches) hid(at time.Time) bool {
	for _, p := range i.hidden {
		if !p.from.After(at) && (p.to.IsZero() || at.Sub(p.to) < 2*maxWait) {
			return true
		}
	}
	return false
}

// disturb has the watches leave out changes, or end, the store or the bus be slow, or the object be made again.
func (o *truth) disturb() {
	o.t.Helper()
	switch o.more.IntN(10) {
	case 0, 1:
		o.watches.see(false)
	case 2, 3, 4:
		o.watches.see(true)
	case 5:
		o.remove("app")
		if o.more.IntN(2) == 0 {
			pass(time.Duration(o.more.Int64N(int64(10 * time.Second))))
		}
		o.made++
		o.change(o.more.IntN(2) == 0, o.revision)
		o.since = time.Now()
		if o.more.IntN(2) == 0 {
			o.write(kustomization{})
		}
	case 6:
		n := o.more.IntN(4)
		o.state.setSlow(func() error {
			<-time.After(time.Duration(n) * 300 * time.Millisecond)
			if n == 3 {
				return errBus
			}
			return nil
		})
	case 7:
		o.state.setSlow(nil)
	case 8:
		o.slow.Store(o.more.Int64N(4) * int64(700*time.Millisecond))
	case 9:
		o.bus.mu.Lock()
		o.bus.lag = time.Duration(o.more.Int64N(2)) * 900 * time.Millisecond
		o.bus.loseAnswers = o.more.IntN(2)
		o.bus.mu.Unlock()
	}
}

// setSlow sets the function that is called before each read and write.
func (s *fakeState) setSlow(slow func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow = slow
}

// delay waits as long as a read or a write takes, and returns its error.
func (s *fakeState) delay() error {
	s.mu.Lock()
	slow := s.slow
	s.mu.Unlock()
	if slow == nil {
		return nil
	}
	return slow()
}

// expire returns a watch that ends, and has to begin with a list, when a channel closes. hides may be nil.
func expire(w watch.Interface, expired <-chan struct{}, hides func() bool) watch.Interface {
	sent := make(chan watch.Event)
	proxy := watch.NewProxyWatcher(sent)
	go func() {
		defer close(sent)
		defer func() {
			w.Stop()
			for range w.ResultChan() { // its goroutine may be sending
			}
		}()
		hidden := false
		for {
			var e watch.Event
			select {
			case e = <-w.ResultChan():
				if hidden = hidden || hides != nil && hides(); hidden {
					continue
				}
			case <-expired:
				e = watch.Event{Type: watch.Error, Object: &apierrors.NewResourceExpired("too old").ErrStatus}
			case <-proxy.StopChan():
				return
			}
			select {
			case sent <- e:
			case <-proxy.StopChan():
				return
			}
			if e.Type == watch.Error {
				return
			}
		}
	}()
	return proxy
}
