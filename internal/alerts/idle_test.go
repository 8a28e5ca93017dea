package alerts

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// queues returns the number of queues that a deliverer has.
func (s *fakeSession) queues() (n int) {
	for _, shard := range s.dispatcher.shards.all() {
		n += len(shard.queues)
	}
	return n
}

// T6: an Alert that is edited again and again names any number of Providers that do not exist. Fails when their queues stay in memory for as
// long as their dead letters may be worth another try, or when these are not tried again once such a Provider is made.
func TestT6TheQueuesOfMissingProvidersAreForgotten(t *testing.T) {
	for name, restart := range map[string]bool{"of this worker": false, "of an earlier worker": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.maxAge = time.Minute
				const missing = 100
				for i := range missing {
					w.bus.publish(w.unbound(fmt.Sprint("missing-", i), "app"))
				}
				s, stop := w.run()
				wait(3 * time.Minute)
				if restart {
					stop()
					s, stop = w.run()
					wait(2 * tickEvery)
				}
				if n := len(w.bus.deadLetters()); n != missing {
					t.Fatalf("%d dead letters", n)
				}
				if n := s.queues(); n != 0 {
					t.Errorf("%d queues for nothing", n)
				}
				if n := len(s.dispatcher.shards.shares.of); n != 0 {
					t.Errorf("%d namespaces without queues are kept", n)
				}
				for _, shard := range s.dispatcher.shards.all() {
					if shard.longest != nil {
						t.Error("a queue is kept as the longest")
					}
				}
				dest := &sink{}
				w.destinations.Put("team-a", "missing-7", &Destination{UID: "p-7", Type: "generic", Version: "1", Sender: dest})
				wait(2 * tickEvery)
				if n := dest.count(); n != 1 {
					t.Errorf("%d of 1 dead letter is sent to the Provider once it is made", n)
				}
				stop()
			})
		})
	}
}

// Fails when the age of the oldest delivery is told for long after it was sent, or a new delivery has none for long.
func TestTheAgeOfTheOldestUndeliveredIsATickOldAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		var up atomic.Bool
		w.destination("chat", whileUp(&up, 10*time.Millisecond, dest))
		_, stop := w.run()
		defer stop()
		wait(time.Minute + 1)
		w.bus.publish(w.delivery("chat", "app"))
		wait(2 * tickEvery)
		if age := gauge(t, w, "notifier_oldest_undelivered_seconds"); age < 10 || age > 20 {
			t.Errorf("the oldest has waited %v s, want 20", age)
		}
		up.Store(true)
		for dest.count() == 0 {
			wait(time.Second)
		}
		wait(tickEvery)
		if age := gauge(t, w, "notifier_oldest_undelivered_seconds"); age != 0 {
			t.Errorf("what was sent has waited %v s", age)
		}
	})
}
