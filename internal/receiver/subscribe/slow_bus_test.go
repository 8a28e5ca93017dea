package subscribe

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// slowBus is a bus that takes a time for each trigger.
type slowBus struct {
	each     time.Duration
	attempts int
}

func (b *slowBus) PublishTriggers(ctx context.Context, triggers ...event.Trigger) error {
	b.attempts++
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(b.each * time.Duration(len(triggers))):
		return nil
	}
}

// T4, T6. Fails when as many triggers are published together as a server that syncs each on a slow disk cannot store in time: all of them
// were published again and again, and no Receiver of type event, of any namespace, ever triggered.
func TestT4TriggersAreStoredByASlowBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const triggers = 1500
		for each, most := range map[time.Duration]int{20 * time.Millisecond: 100, 500 * time.Millisecond: 1000} {
			bus := &slowBus{each: each}
			w := (&Subscriber{Options: Options{Triggers: bus}}).begin()
			for i := range triggers {
				trigger := event.Trigger{Namespace: fmt.Sprint("team-", i%3), Key: fmt.Sprint(i)}
				w.triggers[idOf(trigger)] = trigger
			}
			for began := time.Now(); len(w.triggers) > 0 && time.Since(began) < time.Hour; {
				_ = w.flush(t.Context())
			}
			if len(w.triggers) > 0 || bus.attempts > most {
				t.Errorf("%s each: after %d attempts %d triggers are not stored", each, bus.attempts, len(w.triggers))
			}
		}
	})
}
