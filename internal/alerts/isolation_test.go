package alerts

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// TestABadDestinationDelaysOnlyItself is E5. Fails when sendAll does not bound concurrency, when trim keeps everything in memory (then
// the bus hands out no more messages), or when the loop itself sends.
func TestABadDestinationDelaysOnlyItself(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]Sender{
		"hanging": sendFunc(func(ctx context.Context, _ provider.Notification) error {
			ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
			defer cancel()
			<-ctx.Done()
			return event.NewError(event.Retry, provider.LabelTimeout, "no answer in time", ctx.Err())
		}),
		"refusing": sendFunc(func(context.Context, provider.Notification) error {
			return event.NewError(event.Retry, provider.LabelConnect, "no connection", nil)
		}),
		"rate limiting": sendFunc(func(context.Context, provider.Notification) error {
			e := event.NewError(event.Retry, provider.LabelLimited, "too many requests", nil)
			e.RetryAfter, e.Period = time.Hour, time.Hour
			return e
		}),
		"panicking": sendFunc(func(context.Context, provider.Notification) error { panic("bug") }),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, good := newWorld(t), &sink{}
				w.destination("bad", bad)
				w.destination("good", good)
				for i := range 1000 {
					w.bus.publish(w.delivery("bad", fmt.Sprint("app", i)))
				}
				_, stop := w.run()
				wait(10 * time.Second)
				var worst time.Duration
				for i := range 20 {
					d := w.delivery("good", fmt.Sprint("app", i))
					published := time.Now()
					w.bus.publish(d)
					wait(2 * time.Second)
					got := good.ids()
					if len(got) != i+1 {
						t.Fatalf("%d of %d arrived", len(got), i+1)
					}
					worst = max(worst, good.when[i].Sub(published))
				}
				if worst > 100*time.Millisecond {
					t.Errorf("delayed by %v", worst)
				}
				stop()
				if n := len(w.bus.deadLetters()); n != 0 && name != "panicking" {
					t.Errorf("%d dead letters", n)
				}
			})
		})
	}
}

// TestManyBadDestinationsLeaveRoomForAGoodOne is E5. Fails when trim does not bound the shard's items: then the bus hands out no more
// messages.
func TestManyBadDestinationsLeaveRoomForAGoodOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, good := newWorld(t), &sink{}
		w.destination("good", good)
		for i := range maxAckPending + 400 {
			w.bus.publish(w.delivery(fmt.Sprint("missing", i%700), "app"))
		}
		_, stop := w.run()
		wait(10 * time.Second)
		w.bus.publish(w.delivery("good", "app"))
		wait(time.Second)
		stop()
		if n := good.count(); n != 1 {
			t.Errorf("%d arrived", n)
		}
	})
}

// Fails when maxConcurrent is ignored.
func TestADestinationHasABoundedNumberOfSendsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var now, most atomic.Int64
		w.destination("chat", sendFunc(func(context.Context, provider.Notification) error {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			pass(time.Second)
			now.Add(-1)
			return nil
		}))
		for i := range 100 {
			w.bus.publish(w.delivery("chat", fmt.Sprint("app", i)))
		}
		_, stop := w.run()
		wait(time.Minute)
		stop()
		if most.Load() != maxConcurrent || !w.bus.empty() {
			t.Errorf("%d at a time, empty %v", most.Load(), w.bus.empty())
		}
	})
}

// Fails when token always grants, or when waiting counts as an attempt.
func TestALimitedDestinationGetsNoMoreThanItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.destinations.Put("team-a", "chat", &Destination{Type: "slack", Sender: dest, Limit: rate.Every(time.Second), Burst: 3})
		for i := range 300 {
			w.bus.publish(w.delivery("chat", fmt.Sprint("app", i%7)))
		}
		started := time.Now()
		_, stop := w.run()
		wait(20 * time.Minute)
		stop()
		if n := dest.count(); n != 300 || !w.bus.empty() {
			t.Fatalf("%d sent", n)
		}
		for i, at := range dest.when {
			if earliest := time.Duration(i-3) * time.Second; at.Sub(started) < earliest {
				t.Errorf("number %d after %v", i, at.Sub(started))
			}
		}
		if took := dest.when[299].Sub(started); took > 400*time.Second {
			t.Errorf("took %v", took)
		}
		for _, p := range w.bus.parkings() {
			if p.d.Attempts != 0 {
				t.Fatalf("waiting counted as %d attempts", p.d.Attempts)
			}
		}
	})
}

// TestABreakerProbesWithin30Seconds fails when failure does not open the breaker, when concurrency admits more than a probe, or when trim
// keeps in memory the deliveries that wait for a destination that is down.
func TestABreakerProbesWithin30Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var mu sync.Mutex
		var tries []time.Time
		up := false
		w.destination("chat", sendFunc(func(context.Context, provider.Notification) error {
			mu.Lock()
			defer mu.Unlock()
			tries = append(tries, time.Now())
			if up {
				return nil
			}
			return event.NewError(event.Retry, provider.LabelConnect, "no connection", nil)
		}))
		for i := range 200 {
			w.bus.publish(w.delivery("chat", fmt.Sprint("app", i)))
		}
		_, stop := w.run()
		wait(30 * time.Minute)
		if n := w.bus.unscheduled(); n > badDepth+1 {
			t.Errorf("%d held", n)
		}
		mu.Lock()
		n := len(tries)
		for i := maxConcurrent + breakerTrips; i < n; i++ {
			gap := tries[i].Sub(tries[i-1])
			if gap > 30*time.Second || gap < 3*time.Second {
				t.Errorf("probe %d after %v", i, gap)
			}
		}
		up = true
		mu.Unlock()
		if n > 100 {
			t.Errorf("%d attempts at a destination that is down", n)
		}
		returned := time.Now()
		wait(10 * time.Minute)
		stop()
		if first := tries[n].Sub(returned); first > 30*time.Second {
			t.Errorf("first probe %v after the return", first)
		}
		if !w.bus.empty() || len(w.bus.deadLetters()) != 0 {
			t.Errorf("%d left, %d dead", w.bus.left(), len(w.bus.deadLetters()))
		}
	})
}

// Fails when the panic is not recovered, or maxPanics is ignored.
func TestAPanickingSenderIsAPermanentFailureTheThirdTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		tries := 0
		w.destination("chat", sendFunc(func(context.Context, provider.Notification) error {
			tries++
			panic("https://hooks.example/SECRET")
		}))
		w.bus.publish(w.delivery("chat", "app"))
		_, stop := w.run()
		wait(time.Minute)
		stop()
		if dead := w.bus.deadLetters(); tries != 3 || len(dead) != 1 || dead[0].label != labelPanic {
			t.Errorf("%d attempts, dead letters %+v", tries, dead)
		}
	})
}

// Fails when keep is not called, so that the bus hands out again messages that are in memory.
func TestAMessageHeldLongIsNotRedelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sent := 0
		w.destination("chat", sendFunc(func(context.Context, provider.Notification) error {
			sent++
			pass(3 * time.Minute)
			return nil
		}))
		w.bus.publish(w.delivery("chat", "app"))
		_, stop := w.run()
		wait(10 * time.Minute)
		stop()
		if sent != 1 || w.bus.redelivered != 0 || !w.bus.empty() {
			t.Errorf("sent %d times, handed out again %d times", sent, w.bus.redelivered)
		}
	})
}

// TestADrainEndsInTimeAndReturnsTheRest fails when drain waits for hanging sends, or drops waiting deliveries.
func TestADrainEndsInTimeAndReturnsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, good := newWorld(t), &sink{}
		w.destination("slow", sendFunc(func(ctx context.Context, n provider.Notification) error {
			pass(2 * time.Second)
			return good.Send(ctx, n)
		}))
		w.destination("hanging", sendFunc(func(ctx context.Context, _ provider.Notification) error {
			<-ctx.Done()
			return ctx.Err()
		}))
		for i := range 30 {
			w.bus.publish(w.delivery("slow", fmt.Sprint("app", i)), w.delivery("hanging", fmt.Sprint("app", i)))
		}
		_, stop := w.run()
		wait(time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took > drainTimeout+busTimeout {
			t.Errorf("drained in %v", took)
		}
		if n := good.count(); n != maxConcurrent || len(w.bus.history) != n {
			t.Errorf("%d of the sends under way were finished, %d recorded", n, len(w.bus.history))
		}
		for _, m := range slices.Concat(w.bus.stream, w.bus.schedule) {
			if m.heldUntil.After(time.Now()) {
				t.Errorf("%s was not returned", m.d.ID)
			}
			if m.d.Attempts != 0 {
				t.Errorf("being cut off counted as an attempt of %s", m.d.ID)
			}
		}
		if got := w.notes.recorded(); len(got) != 0 {
			t.Errorf("being cut off was recorded: %v", got)
		}
		if n := w.bus.left(); n != 52 {
			t.Errorf("%d left", n)
		}
	})
}

// Fails when sends use a Destination that was looked up earlier than at the attempt.
func TestNewCredentialsAreUsedAtTheNextAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dest := newWorld(t), &sink{}
		w.destination("chat", sendFunc(func(context.Context, provider.Notification) error {
			return event.NewError(event.Retry, provider.LabelServer, "down", nil)
		}))
		w.bus.publish(w.delivery("chat", "app"))
		_, stop := w.run()
		wait(time.Second)
		w.destination("chat", dest)
		wait(5 * time.Second)
		stop()
		if n := dest.count(); n != 1 {
			t.Errorf("%d sent", n)
		}
	})
}

// Slow destinations of one tenant must not take the memory of the process. Fails when trim ignores the bytes.
func TestTheBytesThatAreHeldAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, slow := newWorld(t), sendFunc(func(context.Context, provider.Notification) error {
			wait(time.Second)
			return nil
		})
		const destinations, each, size = 40, 60, 300 << 10
		text := strings.Repeat("x", size) // once: the events share it
		for p := range destinations {
			name := fmt.Sprint("slow", p)
			w.destination(name, slow)
			for i := range each {
				d := w.delivery(name, fmt.Sprint("app", i))
				d.Event.Message = text
				w.bus.publish(d)
			}
		}
		_, stop := w.run()
		defer stop()
		wait(500 * time.Millisecond)
		held := heldBytes(t, w)
		if most := float64(maxHeldBytes + destinations*(maxConcurrent+badDepth)*(size+1<<10)); held > most || held == 0 {
			t.Errorf("%.0f MiB are held, want at most %.0f", held/(1<<20), most/(1<<20))
		}
		wait(10 * time.Minute)
		if held := heldBytes(t, w); held != 0 {
			t.Errorf("%.0f bytes are counted as held when all was sent", held)
		}
	})
}

// This is the age that an operator watches. Fails when a retry, which is a new message, resets the delivery's age.
func TestTheAgeOfTheOldestUndeliveredCountsItsRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.destination("down", sendFunc(func(context.Context, provider.Notification) error {
			return event.NewError(event.Retry, provider.LabelConnect, "no connection", nil)
		}))
		w.bus.publish(w.delivery("down", "app"))
		_, stop := w.run()
		defer stop()
		wait(30 * time.Minute)
		age := time.Duration(gauge(t, w, "notifier_oldest_undelivered_seconds") * float64(time.Second))
		if age < 29*time.Minute || age > 31*time.Minute {
			t.Errorf("the oldest has waited %s, want 30m", age)
		}
	})
}

func heldBytes(t *testing.T, w *world) float64 {
	t.Helper()
	return gauge(t, w, "notifier_delivery_held_bytes")
}

func gauge(t *testing.T, w *world, name string) float64 {
	t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatal("no such metric")
	return 0
}
