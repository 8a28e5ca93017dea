package alerts

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// T6: an event is a delivery for each of a namespace's Alerts, and their Provider does not exist. Fails when each delivery that leaves memory
// has a goroutine, or when the namespace's next events do not wait for those in memory.
func TestT6AnEventForManyAlertsIsAFewWritesAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var down atomic.Bool
		down.Store(true)
		w.bus.faults = func(op string) error {
			if op == "reschedule" && down.Load() {
				return errCut
			}
			return nil
		}
		many := make([]event.Delivery, namespaceHeld)
		for i := range many {
			many[i] = w.unbound("missing", "app")
		}
		w.bus.publish(many...)
		s, stop := w.run()
		defer stop()
		wait(time.Second)
		d := s.dispatcher
		tasks := 0
		for _, shard := range d.shards.all() {
			tasks = max(tasks, shard.tasks)
		}
		if tasks == 0 || tasks > 2*writers {
			t.Errorf("%d tasks for %d deliveries, want about %d", tasks, len(many), writers)
		}
		if !d.Full("team-a") || d.Full("team-b") {
			t.Errorf("full: %t, and another namespace %t", d.Full("team-a"), d.Full("team-b"))
		}
		down.Store(false)
		wait(time.Minute)
		if d.Full("team-a") {
			t.Error("full when nearly all deliveries are on the schedule")
		}
		if n := w.bus.left(); n != len(many) {
			t.Errorf("%d deliveries are on the bus, want %d", n, len(many))
		}
	})
}

// Fails when the deliveries of a namespace that leave memory wait for all those of another, in the same shard.
func TestT6NamespacesTakeTurnsToLeaveMemory(t *testing.T) {
	w := newWorld(t)
	s := newShard(w.deliverer(w.bus.session()), 0)
	put := func(namespace, id string) {
		d := w.unbound("missing", "app")
		d.Namespace, d.ID = namespace, id
		q := s.queue(namespace, "missing", time.Now())
		l, e := q.place(event.ObjectKey(d.Object()), d.Order, d.ID, time.Now())
		s.leaving.Push(leaving{it: s.take(q, l, e, d, nil)})
	}
	for range 100 {
		put("team-a", "x")
	}
	put("team-b", "y")
	for range 2 {
		if s.leaving.Pop().it.d.Namespace == "team-b" {
			return
		}
	}
	t.Error("the delivery of team-b is behind those of team-a")
}
