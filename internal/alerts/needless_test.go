package alerts

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// closing is a destination with incidents, which is sent closings only where something may be open. It can be down.
type closing struct {
	sink
	recoveries provider.Recoveries
	down       atomic.Bool
}

func (c *closing) Close() error { return nil }

func (c *closing) Needless(n provider.Notification) bool { return c.recoveries.Needless(n) }

func (c *closing) Send(ctx context.Context, n provider.Notification) error {
	return c.recoveries.Send(n, func() error {
		if c.down.Load() {
			e := event.NewError(event.Retry, provider.LabelServer, "HTTP 503", errors.New("down"))
			e.RetryAfter = 5 * time.Minute
			return e
		}
		return c.sink.Send(ctx, n)
	})
}

// finished makes the delivery of a Kustomization's "Reconciliation finished", which comes at every interval.
func (w *world) finished(providerName, object string) event.Delivery {
	d := w.delivery(providerName, object)
	d.Event.Reason, d.Event.Metadata = "ReconciliationSucceeded", map[string]string{provider.CommitStatusKey: "update"}
	return d
}

func (w *world) failed(providerName, object string) event.Delivery {
	d := w.delivery(providerName, object)
	d.Event.Reason, d.Event.Severity = "HealthCheckFailed", event.SeverityError
	return d
}

// Fails when a delivery that changes nothing takes a token of the limit, is recorded as sent, or is left on the bus; or when a failure or
// its recovery is dropped.
func TestANeedlessDeliveryIsDroppedWithoutAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &closing{}
		w.destinations.Put("team-a", "chat", &Destination{UID: "p-chat", Type: "generic", Sender: dest, Limit: rate.Every(24 * time.Hour), Burst: 3})
		_, stop := w.run()
		for range 5 {
			w.bus.publish(w.finished("chat", "app")) // the first may close what an earlier process opened
			wait(10 * time.Minute)
		}
		w.bus.publish(w.failed("chat", "app"), w.finished("chat", "app"), w.finished("chat", "app"))
		wait(time.Minute)
		stop()
		if got, want := dest.ids(), []string{"d1", "d6", "d7"}; !slices.Equal(got, want) || len(w.bus.history) != 3 || !w.bus.empty() {
			t.Errorf("sent %v, want %v; history %v, empty %v", got, want, w.bus.history, w.bus.empty())
		}
	})
}

// Fails when deliveries that change nothing wait for a destination that is down, or when dropping one is taken for its answer; or when
// the recovery behind a failure that waits is dropped.
func TestNothingNeedlessWaitsForADestinationThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &closing{}
		w.destination("chat", dest)
		_, stop := w.run()
		w.bus.publish(w.finished("chat", "app"), w.finished("chat", "other"))
		wait(time.Minute)
		dest.down.Store(true)
		w.bus.publish(w.failed("chat", "app"))
		wait(time.Minute)
		w.bus.publish(w.finished("chat", "app"))
		for range 20 {
			w.bus.publish(w.finished("chat", "other"))
			wait(time.Second)
		}
		wait(2 * tickEvery)
		if n := w.notes.ledger.Get("Provider", "team-a", "chat").Pending; n != 2 {
			t.Errorf("%d deliveries wait, want the failure and its recovery", n)
		}
		if told := w.notes.standings("Provider/team-a/chat"); told[len(told)-1].Health.State == StateOK {
			t.Errorf("the Provider is told to be %+v", told[len(told)-1].Health)
		}
		dest.down.Store(false)
		wait(10 * time.Minute)
		stop()
		got := dest.ids()
		if slices.Sort(got[:min(2, len(got))]); !slices.Equal(got, []string{"d1", "d2", "d3", "d4"}) || !w.bus.empty() {
			t.Errorf("sent %v, want d1 and d2, d3, d4; empty %v", got, w.bus.empty())
		}
	})
}

// Fails when a replica that delivers again, after another one did, drops a recovery by what it knew before.
func TestAReplicaThatDeliversAgainSendsAClosingOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &closing{}
		w.destination("chat", dest)
		for range 2 {
			_, stop := w.run()
			w.bus.publish(w.finished("chat", "app"), w.finished("chat", "app"))
			wait(time.Minute)
			stop()
		}
		if got, want := dest.ids(), []string{"d1", "d3"}; !slices.Equal(got, want) {
			t.Errorf("sent %v, want %v", got, want)
		}
	})
}

// A Provider gets another type while deliveries wait for it. Fails when it is sent what the router routes to no Provider of that type.
func TestAProviderIsSentWhatItsPresentTypeTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.destinations.Put("team-a", "chat", &Destination{UID: "p-chat", Type: "generic", NotReady: "the Secret does not exist"})
		w.bus.publish(w.finished("chat", "app"), w.failed("chat", "other"))
		_, stop := w.run()
		wait(time.Minute)
		w.destinations.Put("team-a", "chat", &Destination{UID: "p-chat", Type: "slack", Version: "2", Sender: dest, Takes: provider.TakesMessages})
		wait(time.Minute)
		stop()
		if got := dest.ids(); !slices.Equal(got, []string{"d2"}) || len(w.bus.deadLetters()) > 0 || !w.bus.empty() {
			t.Errorf("sent %v, %d are dead, empty %v", got, len(w.bus.deadLetters()), w.bus.empty())
		}
	})
}
