package recorder

import (
	"context"
	"errors"
	"slices"
	"sync"
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
