package recorder

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// countingSink cannot be reached for the second write, and keeps the counts of the others.
type countingSink struct {
	asked  int
	counts []int32
}

func (s *countingSink) Patch(ctx context.Context, e *corev1.Event, _ []byte) (*corev1.Event, error) {
	return s.Create(ctx, e)
}

func (s *countingSink) Create(_ context.Context, e *corev1.Event) (*corev1.Event, error) {
	if s.asked++; s.asked == 2 {
		return nil, errors.New("connection refused")
	}
	s.counts = append(s.counts, e.Count)
	return e, nil
}

// Fails when an Event that is tried again is written after a later one of its namespace: of equal ones, the count would be an earlier one.
func TestAnEventThatIsTriedAgainStaysBeforeLaterOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &countingSink{}
		r := New(sink, discard())
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = r.Run(ctx) })
		synctest.Wait()
		for range 3 {
			r.Event("Alert", "team-a", "all", "u", "Warning", "DeliveryFailed", "failed")
			pass(time.Millisecond)
		}
		pass(time.Minute)
		r.Event("Alert", "team-a", "all", "u", "Warning", "DeliveryFailed", "failed")
		pass(time.Second)
		cancel()
		wg.Wait()
		if want := []int32{1, 2, 3, 4}; !slices.Equal(sink.counts, want) {
			t.Errorf("the counts are written as %v, want %v", sink.counts, want)
		}
	})
}

// Fails when an Event that waits while the API server is away is dated at its return: owners then look for the cause at the wrong time.
func TestAnEventHasTheTimeWhenItWasRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &datingSink{}
		r := New(sink, discard())
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = r.Run(ctx) })
		synctest.Wait()
		began := time.Now()
		for _, name := range []string{"first", "second", "second"} {
			r.Event("Alert", "team-a", name, "u", "Warning", "DeliveryFailed", "failed")
			pass(time.Minute)
		}
		pass(time.Hour)
		sink.back.Store(true)
		pass(5 * time.Minute)
		cancel()
		wg.Wait()
		if want := []time.Duration{0, time.Minute, 2 * time.Minute}; len(sink.last) != len(want) {
			t.Errorf("%d Events are written", len(sink.last))
		} else {
			for i, at := range sink.last {
				if at.Sub(began) != want[i] {
					t.Errorf("Event %d is dated %v after the first, want %v", i, at.Sub(began), want[i])
				}
			}
		}
	})
}

// datingSink cannot be reached until it is back, and keeps the times of the Events.
type datingSink struct {
	back atomic.Bool
	last []time.Time
}

func (s *datingSink) Patch(ctx context.Context, e *corev1.Event, _ []byte) (*corev1.Event, error) {
	return s.Create(ctx, e)
}

func (s *datingSink) Create(_ context.Context, e *corev1.Event) (*corev1.Event, error) {
	if !s.back.Load() {
		return nil, errors.New("connection refused")
	}
	s.last = append(s.last, e.LastTimestamp.Time)
	return e, nil
}

// panickySink panics for the first Event.
type panickySink struct{ slowSink }

func (s *panickySink) Create(ctx context.Context, e *corev1.Event) (*corev1.Event, error) {
	if e.InvolvedObject.Name == "first" {
		panic("no Event")
	}
	return s.slowSink.Create(ctx, e)
}

// Fails when an Event whose write panics keeps the later ones of its namespace from being written, or its place.
func TestAnEventWhoseWritePanicsHoldsUpNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &panickySink{slowSink{taken: map[string]int{}}}
		r := New(sink, discard())
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = r.Run(ctx) })
		synctest.Wait()
		for _, name := range []string{"first", "second", "third"} {
			r.Event("Alert", "team-a", name, name, "Normal", "Succeeded", "x")
		}
		pass(time.Minute)
		cancel()
		wg.Wait()
		if sink.taken["team-a"] != 2 || r.waitingEvents() != 0 || r.places.Len() != 0 {
			t.Errorf("%d are written, %d wait, in %d namespaces", sink.taken["team-a"], r.waitingEvents(), r.places.Len())
		}
	})
}
