package limit

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A namespace's filters delay no other namespace's (T6). Fails when all namespaces share one turn, when a namespace has more than one, or
// when a wait has no end.
func TestT6FiltersOfANamespaceTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		share := NewShare()
		turn, ok := share.Enter(t.Context(), "team-a", 0)
		if !ok {
			t.Fatal("no share")
		}
		began := time.Now()
		if _, ok := share.Enter(t.Context(), "team-a", 0); ok || time.Since(began) != turnWait {
			t.Errorf("entered %v after %v", ok, time.Since(began))
		}
		other, ok := share.Enter(t.Context(), "team-b", 0)
		if !ok || time.Since(began) != turnWait {
			t.Error("another namespace waits")
		}
		other.Leave()
		turn.Leave()
		elapse(turnWait) // now the used time is paid for
		again, ok := share.Enter(t.Context(), "team-a", 0)
		if !ok {
			t.Fatal("the turn was not given back")
		}
		again.Leave()
		elapse(2 * slowFor)
		last, _ := share.Enter(t.Context(), "team-c", 0)
		if last.Leave(); share.working.Len() != 0 {
			t.Errorf("%d turns are kept of namespaces that filter nothing", share.working.Len())
		}
	})
}

// T6: fails when large documents are decoded at once, or small ones wait for them.
func TestT6LargeDocumentsWaitForEachOtherAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		share := NewShare()
		var mu sync.Mutex
		var held, most, entered int
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				turn, ok := share.Enter(t.Context(), fmt.Sprint("team-", i), quickSize+1)
				if !ok {
					t.Error("a large document found no share in time")
					return
				}
				mu.Lock()
				held++
				entered++
				most = max(most, held)
				mu.Unlock()
				elapse(100 * time.Millisecond)
				mu.Lock()
				held--
				mu.Unlock()
				turn.Leave()
			})
		}
		synctest.Wait()
		began := time.Now()
		if turn, ok := share.Enter(t.Context(), "team-b", quickSize); !ok || time.Since(began) != 0 {
			t.Errorf("a small document entered %v after %v", ok, time.Since(began))
		} else {
			turn.Leave()
		}
		wg.Wait()
		if most != 1 || entered != 10 {
			t.Errorf("%d of 10 entered, %d at once", entered, most)
		}
	})
}

// T6: namespaces whose filters use the whole permitted time, again and again, delay themselves. Fails when the time is not charged, or when
// others wait for them.
func TestT6FilterShareDefersOnlyTheHeavyTenant(t *testing.T) {
	for _, namespaces := range []int{1, 8, 32} {
		t.Run(fmt.Sprint(namespaces), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				share := NewShare()
				ctx, end := context.WithCancel(t.Context())
				used := make([]time.Duration, namespaces)
				var wg sync.WaitGroup
				for i := range used {
					for range 3 { // webhooks at a time
						wg.Go(func() {
							for ctx.Err() == nil {
								turn, ok := share.Enter(ctx, fmt.Sprint("flood-", i), 0)
								if !ok {
									elapse(time.Millisecond)
									continue
								}
								elapse(FilterTime)
								used[i] += FilterTime // it is its turn
								turn.Leave()
							}
						})
					}
				}
				// Slow filters are not known beforehand, so all may count as quick once.
				elapse(time.Duration(namespaces) * FilterTime)
				const tries = 100
				for i := range tries {
					began := time.Now()
					turn, ok := share.Enter(t.Context(), "team-a", 0)
					if took := time.Since(began); !ok || took != 0 {
						t.Errorf("webhook %d of another namespace: %v after %v", i, ok, took)
						break
					}
					elapse(time.Millisecond)
					turn.Leave()
					elapse(37 * time.Millisecond)
				}
				began := time.Now()
				turn, ok := share.Enter(t.Context(), "team-a", quickSize+1)
				if took := time.Since(began); !ok || took > FilterTime {
					t.Errorf("a large document of another namespace: %v after %v", ok, took)
				}
				if ok {
					turn.Leave()
				}
				passed := time.Duration(namespaces)*FilterTime + tries*38*time.Millisecond
				end()
				wg.Wait()
				for i, d := range used {
					if most := passed/timeShare + maxOwed + 2*FilterTime; d > most {
						t.Errorf("namespace %d used %v in %v", i, d, passed)
					}
				}
			})
		})
	}
}

// T6: fails when slow namespaces, however many, have more than one of the places for others' small documents.
func TestT6SlowNamespacesHaveOnePlaceTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		share := NewShare()
		var mu sync.Mutex
		working, most := 0, 0
		var wg sync.WaitGroup
		for round := range 2 { // the first makes them slow
			for i := range 8 {
				wg.Go(func() {
					turn, ok := share.Enter(t.Context(), fmt.Sprint("flood-", i), 0)
					if !ok {
						t.Error("no share in time")
						return
					}
					mu.Lock()
					working++
					most = max(most, round*working)
					mu.Unlock()
					elapse(2 * quickTime)
					mu.Lock()
					working--
					mu.Unlock()
					turn.Leave()
				})
			}
			wg.Wait()
		}
		if most != 1 {
			t.Errorf("%d slow namespaces worked at once, want 1", most)
		}
	})
}

// Fails when a namespace counts as slow for ever after slow work, or when a suspended machine costs a namespace more than a moment.
func TestASlowNamespaceIsForgiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		share := NewShare()
		turn, _ := share.Enter(t.Context(), "team-a", 0)
		elapse(time.Hour)
		turn.Leave()
		began := time.Now()
		if turn, ok := share.Enter(t.Context(), "team-a", 0); !ok || time.Since(began) > turnWait {
			t.Errorf("entered %v after %v", ok, time.Since(began))
		} else {
			turn.Leave()
		}
		elapse(slowFor)
		first, _ := share.Enter(t.Context(), "team-b", 0)
		elapse(2 * quickTime)
		first.Leave()
		slow, ok := share.Enter(t.Context(), "team-b", 0)
		if !ok {
			t.Fatal("no share")
		}
		defer slow.Leave()
		began = time.Now()
		if turn, ok := share.Enter(t.Context(), "team-a", 0); !ok || time.Since(began) != 0 {
			t.Errorf("later entered %v after %v", ok, time.Since(began))
		} else {
			turn.Leave()
		}
	})
}
