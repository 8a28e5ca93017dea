package alerts

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// interruptedBus loses its server for a moment: the shard is then taken over anew, in the same term.
type interruptedBus struct {
	*fakeSession
	interrupt chan struct{}
}

func (s interruptedBus) Deliveries(
	ctx context.Context, serve func(context.Context, int, <-chan event.Message[event.Delivery]) error,
) error {
	first, lost := context.WithCancel(ctx)
	go func() {
		<-s.interrupt
		lost()
	}()
	for _, ctx := range []context.Context{first, ctx} {
		if err := serve(ctx, 0, make(chan event.Message[event.Delivery])); err != nil {
			return err
		}
	}
	return nil
}

// openEvents are the Ackers of a router's events.
type openEvents struct{ returned atomic.Int64 }

func (o *openEvents) Ack(context.Context) error { return nil }
func (o *openEvents) InProgress() error         { return nil }
func (o *openEvents) Nak() error                { o.returned.Add(1); return nil }

// allCaughtUp is the behind of a router without events from before its beginning.
func allCaughtUp(string) bool { return false }

// E4: a worker loses the server of its deliveries for a moment. Its shards give back what they have and are taken over anew, while its
// router, which ends soon because of that, still has younger events of the same objects. Fails when these are sent before the next router
// has dispatched the older ones again, or when what waits on the schedule is sent before that.
func TestE4NothingOvertakesWhatAnInterruptedShardGaveBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.destination("chat", slowly(dest, time.Minute, 0))
		s := interruptedBus{w.bus.session(), make(chan struct{})}
		d := w.deliverer(s.fakeSession)
		d.Source = s
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := d.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		events := []event.Delivery{w.delivery("chat", "app"), w.delivery("chat", "app"), w.delivery("chat", "app"), w.delivery("chat", "app")}
		var former, latter openEvents
		dispatch := func(router context.Context, o *openEvents, ds ...event.Delivery) {
			for _, is := range ds {
				if err := d.Dispatch(router, []event.Message[event.Delivery]{{Value: is, Acker: o}}); err != nil {
					t.Error(err)
				}
			}
		}
		router, end := context.WithCancel(t.Context())
		d.Begin(allCaughtUp)
		dispatch(router, &former, events[:3]...)
		wait(time.Second)
		close(s.interrupt)
		wait(time.Minute) // the send under way is cut off, and the shard is served again
		if n := former.returned.Load(); n != 3 {
			t.Fatalf("%d events were given back, want 3", n)
		}
		dispatch(router, &former, events[3])
		d.CaughtUp(router)
		wait(10 * time.Minute)
		if got := dest.ids(); len(got) != 0 {
			t.Errorf("sent before what was given back: %v", got)
		}
		end()
		router = t.Context()
		d.Begin(allCaughtUp)
		dispatch(router, &latter, events...)
		wait(10 * time.Minute)
		if got := dest.ids(); !slices.Equal(got, []string{"d1", "d2", "d3", "d4"}) {
			t.Errorf("sent %v", got)
		}
		cancel()
		running.Wait()
	})
}
