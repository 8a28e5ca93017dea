package alerts

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// twoShards is a bus of two shards. The second has a large backlog, and listing it takes until listed is closed.
type twoShards struct {
	*fakeSession
	listed chan struct{}
}

func (s twoShards) Shards() int { return 2 }

func (s twoShards) DeliveryShard(_, providerName string) int {
	if providerName == "backlogged" {
		return 1
	}
	return 0
}

func (s twoShards) Backlog(ctx context.Context, shard int) ([]event.Scheduled, error) {
	if shard == 1 {
		<-s.listed
		return nil, nil
	}
	return s.fakeSession.Backlog(ctx, shard)
}

func (s twoShards) Deliveries(
	ctx context.Context, serve func(context.Context, int, <-chan event.Message[event.Delivery]) error,
) error {
	var second sync.WaitGroup
	defer second.Wait()
	second.Go(func() { _ = serve(ctx, 1, make(chan event.Message[event.Delivery])) })
	return s.fakeSession.Deliveries(ctx, serve)
}

// E5, E4: after a restart the events of a tenant with a hundred thousand waiting deliveries are routed before these are listed. Fails
// when Dispatch waits for its shard, and all tenants with it, or when deliveries dispatched meanwhile are not sent in order. It also
// fails when deliveries dispatched by a router that has ended are sent, since the next router routes their events again.
func TestE5AShardWhoseBacklogIsBeingReadHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, backlogged, other := newWorld(t), &sink{}, &sink{}
		w.destination("backlogged", backlogged)
		w.destination("chat", other)
		w.alert("team-a", "alert", "uid-1", "backlogged")
		w.bus.publish(w.delivery("backlogged", "app"), w.delivery("chat", "app"))
		s := twoShards{w.bus.session(), make(chan struct{})}
		d := w.deliverer(s.fakeSession)
		d.Bus = s
		former, end := context.WithCancel(t.Context())
		if err := d.Dispatch(former, []event.Message[event.Delivery]{{Value: w.delivery("chat", "app")}}); err != nil {
			t.Error(err)
		}
		end()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		wait(time.Second)
		w.bus.publish(w.delivery("backlogged", "app"), w.delivery("chat", "app"))
		wait(time.Second)
		if got := other.ids(); !slices.Equal(got, []string{"d2", "d5"}) {
			t.Errorf("while another shard's backlog is being read: sent %v", got)
		}
		if got := backlogged.ids(); len(got) != 0 {
			t.Errorf("sent %v before it is known what waits", got)
		}
		close(s.listed)
		wait(time.Second)
		if got := backlogged.ids(); !slices.Equal(got, []string{"d1", "d4"}) {
			t.Errorf("once it is known: sent %v", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Fails when a delivery is handled before the tables are complete: its Alert would seem to be deleted.
func TestDeliveriesWaitUntilTheTablesAreComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, chat := newWorld(t), &sink{}
		w.destination("chat", chat)
		w.bus.publish(w.delivery("chat", "app"))
		gate := make(chan struct{})
		d := w.deliverer(w.bus.session())
		d.Gate = gate
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		wait(time.Minute)
		if got := chat.ids(); len(got) != 0 {
			t.Errorf("sent %v", got)
		}
		close(gate)
		wait(time.Second)
		if got := chat.ids(); !slices.Equal(got, []string{"d1"}) {
			t.Errorf("sent %v", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
