package alerts

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// A tenant corrects a Provider whose deliveries have failed for hours, so that the next try of one is minutes ahead. Fails when adopt or
// takeRecalled leaves the retries until their times, when concluded does (the last), or when a Provider that was compiled anew without a
// change is tried before the time of a retry.
func TestARetryIsTriedAtOnceWhenItsProviderIsCorrected(t *testing.T) {
	for name, correct := range map[string]func(w *world, mend, restart func()){
		"while the retry waits": func(_ *world, mend, _ func()) { mend() },
		"while no worker runs":  func(_ *world, mend, restart func()) { mend(); restart() },
		"while the outcome of a try is being stored": func(w *world, mend, _ func()) {
			w.bus.mu.Lock()
			defer w.bus.mu.Unlock()
			until := time.Time{}
			w.bus.faults = func(op string) error {
				switch {
				case op != "reschedule" || !until.IsZero() && time.Now().After(until):
					return nil
				case until.IsZero():
					mend()
					until = time.Now().Add(2 * tickEvery)
				}
				return errors.New("the bus is away")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, dest, mended := newWorld(t), &sink{}, time.Time{}
				fails := sendFunc(func(context.Context, provider.Notification) error { return failure(event.Retry, provider.LabelServer) })
				w.version("chat", "1", fails)
				_, stop := w.run()
				w.bus.publish(w.delivery("chat", "app"), w.delivery("chat", "app"))
				wait(4 * time.Hour)
				for parked := w.bus.parkings(); time.Until(parked[len(parked)-1].at) < 2*time.Minute; parked = w.bus.parkings() {
					wait(time.Second)
				}
				w.version("chat", "1", dest)
				wait(time.Minute)
				if dest.count() > 0 {
					t.Errorf("sent %v before its time", dest.ids())
				}
				w.version("chat", "1", fails)
				correct(w, func() {
					w.version("chat", "2", dest)
					mended = time.Now()
				}, func() {
					stop()
					_, stop = w.run()
				})
				wait(20 * time.Minute)
				stop()
				if !slices.Equal(dest.ids(), []string{"d1", "d2"}) {
					t.Fatalf("sent %v", dest.ids())
				}
				if took := dest.when[1].Sub(mended); took > 4*tickEvery {
					t.Errorf("sent %v after the correction", took)
				}
			})
		})
	}
}
