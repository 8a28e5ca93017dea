package alerts

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// restless is a bus whose routers and shards begin and end at times of their own, as when the server is lost for moments.
type restless struct {
	*fakeSession
	mu  sync.Mutex
	rng *rand.Rand
	// router counts the routers.
	router int
	calm   bool
}

// upTo returns a random time, or when calm the given one.
func (s *restless) upTo(most, calm time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calm {
		return calm
	}
	return time.Duration(s.rng.Int64N(int64(most)))
}

// Deliveries serves the shard for some time, again and again.
func (s *restless) Deliveries(
	ctx context.Context, serve func(context.Context, int, <-chan event.Message[event.Delivery]) error,
) error {
	var routers sync.WaitGroup
	routers.Go(func() {
		for ctx.Err() == nil {
			s.route(ctx)
		}
	})
	defer routers.Wait()
	for ctx.Err() == nil {
		term, end := context.WithCancel(ctx)
		life := time.AfterFunc(s.upTo(time.Minute, 2*time.Hour), end)
		s.takeOver()
		in, ended := make(chan event.Message[event.Delivery]), make(chan struct{})
		var feed sync.WaitGroup
		feed.Go(func() { s.feed(term, ended, in) })
		err := serve(term, 0, in)
		close(ended)
		feed.Wait()
		life.Stop()
		end()
		if err != nil {
			return err
		}
		if away := s.upTo(4*time.Second, 0); away > 2*time.Second && ctx.Err() == nil {
			pass(away - 2*time.Second) // half of the time it is served again at once
		}
	}
	return nil
}

// takeOver has what was handed out off the schedule handed out again.
func (s *restless) takeOver() {
	s.fakeSession.mu.Lock()
	defer s.fakeSession.mu.Unlock()
	s.fire()
	for _, m := range s.stream {
		if m.rescheduled {
			m.holder = nil
		}
	}
	s.count()
}

// route is one router: it dispatches the events that are not done, then the new ones, until one is given back, or for some time.
func (s *restless) route(ctx context.Context) {
	term, end := context.WithCancel(ctx)
	defer end()
	life := time.AfterFunc(s.upTo(2*time.Minute, 2*time.Hour), end)
	defer life.Stop()
	s.mu.Lock()
	s.router++
	number, returned := s.router, make(chan struct{}, 1)
	s.mu.Unlock()
	go func() {
		select {
		case <-returned:
			pass(s.upTo(6*time.Second, 0)) // the cursor is saved every 100 ms, and a call may take seconds
			end()
		case <-term.Done():
		}
	}()
	s.fakeSession.mu.Lock()
	last := s.nextSeq
	for _, m := range s.stream {
		if !m.rescheduled {
			m.holder = nil
		}
	}
	s.count()
	s.fakeSession.mu.Unlock()
	var caughtUp atomic.Bool
	s.dispatcher.Begin(func(string) bool { return !caughtUp.Load() })
	for term.Err() == nil {
		s.fakeSession.mu.Lock()
		batch, changed := s.takeFresh(), s.changed
		s.fakeSession.mu.Unlock()
		for i := range batch {
			batch[i].Acker = &openUnder{s, number, returned, batch[i].Acker}
		}
		if len(batch) > 0 && s.dispatcher.Dispatch(term, batch) != nil {
			return
		}
		s.fakeSession.mu.Lock()
		old := slices.ContainsFunc(s.fresh, func(m *fakeMessage) bool { return m.seq <= last })
		s.fakeSession.mu.Unlock()
		if !old && !caughtUp.Swap(true) {
			s.dispatcher.CaughtUp(term)
		}
		if len(batch) > 0 {
			pass(s.upTo(50*time.Millisecond, 0))
			continue
		}
		select {
		case <-term.Done():
		case <-changed:
		}
	}
}

// openUnder is the Acker of an event of one router.
type openUnder struct {
	*restless
	router   int
	returned chan<- struct{} // has a value when an event was given back
	event.Acker
}

// present reports whether the router has no successor. The end of an event under a former router is not recorded.
func (r *openUnder) present() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.router == r.restless.router
}

func (r *openUnder) Ack(ctx context.Context) error {
	if !r.present() {
		return nil
	}
	return r.Acker.Ack(ctx)
}

func (r *openUnder) Nak() error {
	select {
	case r.returned <- struct{}{}:
	default:
	}
	return nil
}

// FuzzE4RoutersAndShardsEndIndependently is E4 and E2 while the worker loses servers for moments: routers and shards then end and begin again
// at different times, in the same process. Every delivery is accepted, those of one object in order.
//
// Fails when giveBack or beginTerm does nothing, or when a shard takes what a former router kept for it as if it were complete.
func FuzzE4RoutersAndShardsEndIndependently(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { playRestless(t, seed) })
	})
}

func playRestless(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	w := newWorld(t)
	w.bus.rough = newRough(seed, true)
	m := newMoody(t, seed)
	chat := &Destination{UID: "p-chat", Type: "generic", Sender: m.sender(0)}
	if seed%4 == 3 { // slower than the deliveries arrive, so that most wait on the schedule
		chat.Limit, chat.Burst = 0.4, 3
	}
	w.destinations.Put("team-a", "chat", chat)
	s := &restless{fakeSession: w.bus.session(), rng: rand.New(rand.NewPCG(seed, 9))}
	faults := rand.New(rand.NewPCG(seed, 10))
	w.bus.faults = func(string) error { // its caller has the lock of the bus
		if seed%2 == 0 && faults.IntN(20) == 0 {
			return errors.New("bus hiccup")
		}
		return nil
	}
	d := w.deliverer(s.fakeSession)
	d.Bus = s
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := d.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	for range 300 {
		pass(time.Duration(rng.IntN(1500)) * time.Millisecond)
		is := w.delivery("chat", fmt.Sprint("app", rng.IntN(6)))
		m.expect(is, rng.IntN(40) == 0)
		w.bus.publish(is)
		consistent(t, d)
	}
	m.cure()
	s.mu.Lock()
	s.calm = true
	s.mu.Unlock()
	wait(time.Hour)
	cancel()
	running.Wait()
	if !w.bus.empty() {
		t.Errorf("%d deliveries are left on the bus", w.bus.left())
	}
	m.allInOrder()
}
