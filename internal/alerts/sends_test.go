package alerts

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// hanging is a destination that never answers. It counts the sends to it that are under way, and the most at a time.
type hanging struct {
	mu        sync.Mutex
	now, most int
	timeout   time.Duration // of a send, 15 s where it is zero
}

func (h *hanging) Send(ctx context.Context, _ provider.Notification) error {
	h.add(1)
	defer h.add(-1)
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(h.timeout, 15*time.Second))
	defer cancel()
	<-ctx.Done()
	return event.NewError(event.Retry, provider.LabelTimeout, "no answer in time", ctx.Err())
}

func (h *hanging) add(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now += n
	h.most = max(h.most, h.now)
}

func (h *hanging) sends() (now, most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now, h.most
}

// TestT6TheSendsOfANamespaceAreBounded is T6 and E5: Providers that hang, as many as a tenant cares to make, do not take the process's memory,
// and leave a healthy one of their own namespace its sends. Fails when start takes no place, or when a Provider's first send is one of
// furtherSends.
func TestT6TheSendsOfANamespaceAreBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ providers, each, most int }{
		{providers: 400, each: maxConcurrent, most: 400 + furtherSends},
		{providers: 1100, each: 2, most: namespaceSends},
	} {
		t.Run(fmt.Sprint(c.providers, " Providers"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, bad, good := newWorld(t), &hanging{}, &sink{}
				w.destination("good", good)
				for i := range c.providers {
					name := fmt.Sprint("bad", i)
					w.destination(name, bad)
					for j := range c.each {
						w.bus.publish(w.delivery(name, fmt.Sprint("app", j)))
					}
				}
				_, stop := w.run()
				wait(time.Second)
				if n, _ := bad.sends(); n != c.most {
					t.Errorf("%d sends are under way, want %d", n, c.most)
				}
				if c.most < namespaceSends {
					w.bus.publish(w.delivery("good", "app"))
					wait(time.Second)
					if n := good.count(); n != 1 {
						t.Errorf("%d of 1 arrived at the healthy Provider", n)
					}
				}
				wait(20 * time.Second) // the first have timed out, and others have begun
				if _, n := bad.sends(); n > c.most {
					t.Errorf("%d sends were under way at a time, want %d at most", n, c.most)
				}
				stop()
			})
		})
	}
}

// E5: more Providers hang than a namespace has sends, each for as long as its spec may have a send last. Fails when probes of a destination
// that fails are not among furtherSends: they are under way nearly all the time, and a healthy Provider gets a place by chance.
func TestE5ProbesLeaveTheHealthyProvidersTheirSends(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, good := newWorld(t), &sink{}
		var tries atomic.Int64
		w.destination("good", good)
		w.destination("bad", sendFunc(func(context.Context, provider.Notification) error {
			tries.Add(1)
			return event.NewError(event.Retry, provider.LabelConnect, "no connection", nil)
		}))
		s, stop := w.run()
		defer stop()
		var others []sendPlace
		for range furtherSends {
			place, ok := s.dispatcher.sends.take("team-a", true)
			if !ok {
				t.Fatalf("only %d further sends", len(others))
			}
			others = append(others, place)
		}
		for i := range 2 * breakerTrips {
			w.bus.publish(w.delivery("bad", fmt.Sprint("app", i)))
		}
		wait(5 * time.Minute)
		if n := tries.Load(); n != breakerTrips {
			t.Errorf("%d tries, want %d and no probe", n, breakerTrips)
		}
		w.bus.publish(w.delivery("good", "app"))
		wait(time.Second)
		if n := good.count(); n != 1 {
			t.Errorf("%d of 1 arrived at the healthy Provider", n)
		}
		for i := range others {
			others[i].release()
		}
		wait(time.Minute)
		if n := tries.Load(); n == breakerTrips {
			t.Error("no probe when there are places")
		}
	})
}

// TestT6ANamespaceHasSendsOfItsOwn is T6. Fails when the namespaces have no bound together, or no reserve.
func TestT6ANamespaceHasSendsOfItsOwn(t *testing.T) {
	t.Parallel()
	s := newSends()
	all := 0
	const greedy = maxSends/namespaceSends + 2
	for i := range greedy {
		for range 2 * namespaceSends {
			if _, ok := s.take(fmt.Sprint("greedy-", i), false); ok {
				all++
			}
		}
	}
	if most := maxSends + greedy*sendReserve; all != most {
		t.Errorf("%d sends are under way, want %d", all, most)
	}
	for i := range sendReserve {
		place, ok := s.take("modest", false)
		if !ok {
			t.Fatalf("another namespace has %d sends of its own, want %d", i, sendReserve)
		}
		defer place.release()
	}
}
