package receiver

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// T4: fails when an arrival joins the publish that is running (it would be stamped before it arrived), when the shared publish
// carries the first instead of the newest time, or when each arrival publishes for itself.
func TestT4ArrivalsDuringAPublishShareTheNextOneWithTheNewestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s rounds
		var published []time.Time
		publish := func(_ context.Context, newest time.Time) error {
			published = append(published, newest)
			elapse(time.Second) // the bubble's clock: the publish takes a second
			return nil
		}
		start := time.Now()
		var wg sync.WaitGroup
		var mu sync.Mutex
		sharers := 0
		arrive := func() {
			accepted := time.Now()
			wg.Go(func() {
				shared, err := s.do(t.Context(), accepted, publish)
				if err != nil {
					t.Errorf("do: %v", err)
				}
				if answered := time.Since(accepted); answered < time.Second {
					t.Errorf("answered after %s, before a publish that began after the arrival had ended", answered)
				}
				mu.Lock()
				defer mu.Unlock()
				if shared {
					sharers++
				}
			})
		}
		arrive()
		for range 50 {
			synctest.Wait()
			elapse(10 * time.Millisecond)
			arrive()
		}
		newest := time.Now()
		wg.Wait()
		if len(published) != 2 {
			t.Fatalf("%d publishes for 51 arrivals, want 2", len(published))
		}
		if !published[0].Equal(start) || !published[1].Equal(newest) {
			t.Errorf("published for %v, want %v and %v", published, start, newest)
		}
		if sharers != 49 {
			t.Errorf("%d shared, want 49", sharers)
		}
		if shared, err := s.do(t.Context(), time.Now(), publish); shared || err != nil || len(published) != 3 {
			t.Errorf("after the flood: shared %v, error %v, %d publishes", shared, err, len(published))
		}
	})
}

// T3: fails when a sharer gets nil for a round that failed.
func TestT3EveryoneOfARoundGetsItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s rounds
		failure := errors.New("no stream")
		calls := 0
		publish := func(context.Context, time.Time) error {
			calls++
			elapse(time.Second)
			if calls == 2 {
				return failure
			}
			return nil
		}
		var wg sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			wg.Go(func() { _, errs[i] = s.do(t.Context(), time.Now(), publish) })
			synctest.Wait()
		}
		wg.Wait()
		if errs[0] != nil {
			t.Errorf("the first round: %v", errs[0])
		}
		for i, err := range errs[1:] {
			if !errors.Is(err, failure) {
				t.Errorf("sharer %d got %v, want the round's error", i, err)
			}
		}
	})
}

// Fails when a panic leaves the round's others waiting for ever, or the turn with nobody.
func TestAPanicOfOnePublishHoldsNobodyUp(t *testing.T) {
	for name, tc := range map[string]struct {
		call int // that panics
		lost int // arrivals that get no result
	}{
		"of the first publish":     {1, 0},
		"of one that others share": {2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s rounds
				calls := 0
				publish := func(context.Context, time.Time) error {
					calls++
					n := calls
					elapse(time.Second)
					if n == tc.call {
						panic("publish")
					}
					return nil
				}
				var wg sync.WaitGroup
				errs := make([]error, 4)
				panics := 0
				for i := range errs {
					wg.Go(func() {
						defer func() {
							if recover() != nil {
								panics++
							}
						}()
						_, errs[i] = s.do(t.Context(), time.Now(), publish)
					})
					synctest.Wait()
				}
				wg.Wait()
				lost := 0
				for _, err := range errs {
					if errors.Is(err, errRoundLost) {
						lost++
					}
				}
				if panics != 1 || lost != tc.lost || calls != 2 {
					t.Errorf("%d panics, %d publishes, errors %v", panics, calls, errs)
				}
				if _, err := s.do(t.Context(), time.Now(), publish); err != nil {
					t.Errorf("afterwards: %v", err)
				}
			})
		})
	}
}

// Fails when a sharer stays after its sender hung up: senders who come and go faster than the bus answers would pile up.
func TestWhoSharesARoundLeavesWithItsSenderAndWhoLeadsItStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s rounds
		release := make(chan struct{})
		publish := func(context.Context, time.Time) error { <-release; return nil }
		gone, hangUp := context.WithCancel(t.Context())
		ends := make(chan error, 3)
		for range 3 { // the first publishes, the second leads the next round, the third shares that
			go func() {
				_, err := s.do(gone, time.Now(), publish)
				ends <- err
			}()
			synctest.Wait()
		}
		hangUp()
		synctest.Wait()
		if len(ends) != 1 {
			t.Fatalf("%d of three ended, want the one who shares", len(ends))
		}
		if err := <-ends; !errors.Is(err, context.Canceled) {
			t.Errorf("it got %v, want that its sender has gone", err)
		}
		close(release)
		for range 2 {
			if err := <-ends; err != nil {
				t.Errorf("a leader got %v", err)
			}
		}
	})
}
