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

// handingBus hands out what a test puts into its channel, once the shard is served. It may be interrupted: the shard is then taken over anew,
// as when the server is lost for a moment.
type handingBus struct {
	*fakeSession
	in               chan event.Message[event.Delivery]
	serve, interrupt chan struct{}
}

func (s handingBus) Deliveries(
	ctx context.Context, serve func(context.Context, int, <-chan event.Message[event.Delivery]) error,
) error {
	<-s.serve
	first, lost := context.WithCancel(ctx)
	defer lost()
	go func() {
		select {
		case <-s.interrupt:
			lost()
		case <-first.Done():
		}
	}()
	if err := serve(first, 0, s.in); err != nil || ctx.Err() != nil {
		return err
	}
	return serve(ctx, 0, s.in)
}

// hand hands out a delivery that was rescheduled once.
func (s handingBus) hand(d event.Delivery) {
	d.Reschedules = 1
	s.in <- event.Message[event.Delivery]{Value: d, Acker: &openEvents{}}
}

// handing starts a Deliverer on a handingBus.
func (w *world) handing() (*Deliverer, handingBus) {
	s := handingBus{w.bus.session(), make(chan event.Message[event.Delivery]), make(chan struct{}), make(chan struct{})}
	d := w.deliverer(s.fakeSession)
	d.Bus = s
	ctx, cancel := context.WithCancel(w.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := d.Run(ctx); err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return d, s
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
		d, bus := w.handing()
		close(bus.serve)
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
		close(bus.interrupt)
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
	})
}

// E4: a router has dispatched all, and ends before the shard is served. Fails when the shard sends what waits on the schedule before the
// next router has dispatched the older events again.
func TestE4NothingOvertakesWhatAFormerRouterKeptForAShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.destination("chat", dest)
		d, bus := w.handing()
		older, younger := w.delivery("chat", "app"), w.delivery("chat", "app")
		dispatch := func(router context.Context) {
			d.Begin(allCaughtUp)
			if err := d.Dispatch(router, []event.Message[event.Delivery]{{Value: older, Acker: &openEvents{}}}); err != nil {
				t.Error(err)
			}
			d.CaughtUp(router)
		}
		router, end := context.WithCancel(t.Context())
		dispatch(router)
		end()
		close(bus.serve)
		bus.hand(younger)
		wait(10 * time.Minute)
		if got := dest.ids(); len(got) != 0 {
			t.Errorf("sent before the older event: %v", got)
		}
		dispatch(t.Context())
		wait(time.Second)
		if got := dest.ids(); !slices.Equal(got, []string{older.ID, younger.ID}) {
			t.Errorf("sent %v", got)
		}
	})
}

// E4: a delivery's event was dispatched by two routers while its destination takes no sends. Fails when the shard that gives it back does not
// count it as one of the second router's, and then sends what waits on the schedule before the third has dispatched the older event.
func TestE4WhatTwoRoutersDispatchedIsGivenBackToTheSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		d, bus := w.handing() // without the Provider, the delivery waits
		close(bus.serve)
		synctest.Wait()
		older, younger := w.delivery("chat", "app"), w.delivery("chat", "app")
		var given openEvents
		route := func() {
			d.Begin(allCaughtUp)
			if err := d.Dispatch(t.Context(), []event.Message[event.Delivery]{{Value: older, Acker: &given}}); err != nil {
				t.Error(err)
			}
		}
		route()
		route()
		close(bus.interrupt)
		wait(time.Second)
		if n := given.returned.Load(); n != 2 {
			t.Fatalf("%d messages were given back, want 2", n)
		}
		w.destination("chat", dest)
		bus.hand(younger)
		wait(10 * time.Minute)
		if got := dest.ids(); len(got) != 0 {
			t.Errorf("sent before the older event: %v", got)
		}
		route()
		wait(time.Minute)
		if got := dest.ids(); !slices.Equal(got, []string{older.ID, younger.ID}) {
			t.Errorf("sent %v", got)
		}
	})
}

// A delivery waits while routers begin anew, each of which dispatches it again. Fails when the latest of them is returned the event, so that
// it begins anew as well, for as long as the delivery waits.
func TestARouterIsNotReturnedWhatItsPredecessorsDispatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d, bus := w.handing() // without the Provider, the delivery waits
		close(bus.serve)
		synctest.Wait()
		waits := w.delivery("chat", "app")
		for range 2 * maxTwins {
			var latest openEvents
			d.Begin(allCaughtUp)
			if err := d.Dispatch(t.Context(), []event.Message[event.Delivery]{{Value: waits, Acker: &latest}}); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if n := latest.returned.Load(); n != 0 {
				t.Fatalf("%d events were returned", n)
			}
		}
	})
}

// stuck is the Acker of a message that cannot be returned until freed is closed: the connection to the server blocks.
type stuck struct {
	openEvents
	freed chan struct{}
}

func (s *stuck) Nak() error {
	<-s.freed
	return s.openEvents.Nak()
}

// impatient is a context that ends when it has been asked a hundred times.
type impatient struct {
	context.Context
	asked atomic.Int64
}

func (c *impatient) Err() error {
	if c.asked.Add(1) > 100 {
		return context.Canceled
	}
	return nil
}

// Fails when a router asks for a shard again and again, for as long as that returns its deliveries to the bus.
func TestADispatchDoesNotSpinWhileItsShardGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.destination("chat", dest)
		d, bus := w.handing()
		close(bus.serve)
		held, freed := w.delivery("chat", "app"), make(chan struct{})
		held.Reschedules = 1
		bus.in <- event.Message[event.Delivery]{Value: held, Acker: &stuck{freed: freed}}
		wait(time.Second)
		close(bus.interrupt)
		wait(time.Second)
		router := &impatient{Context: t.Context()}
		err := d.Dispatch(router, []event.Message[event.Delivery]{{Value: w.delivery("chat", "db"), Acker: &openEvents{}}})
		if n := router.asked.Load(); err != nil || n > 1 {
			t.Errorf("%v, after %d times", err, n)
		}
		close(freed)
		d.Begin(allCaughtUp)
		d.CaughtUp(t.Context())
		wait(time.Minute)
	})
}
