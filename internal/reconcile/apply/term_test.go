package apply

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// unconfirmed is a message whose end the bus does not confirm.
type unconfirmed struct{ fakeHold }

func (u *unconfirmed) Ack(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// The lease is not released before a term has ended. Fails when the end waits for each of a request's many messages while the bus is away.
func TestATermEndsInTimeThoughTheBusConfirmsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		var targets []event.Target
		for i := range 50 {
			targets = append(targets, selecting(fmt.Sprint("label-", i), "a"))
			w.selector[targets[i].Selector()] = []string{"app"}
		}
		r := w.receiver("team", "app", "deployer", targets...)
		for _, target := range targets {
			w.bus.in <- event.Message[event.Trigger]{Value: trigger(r, target), Acker: &unconfirmed{}}
		}
		pass(time.Second)
		began := time.Now()
		w.bus.endTerm()
		if took := time.Since(began); took > 2*drainTime {
			t.Errorf("the term ended after %v", took)
		}
	})
}
