package limit

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Fails when the order is another, or when a waiter that gave up is given the place.
func TestAPlaceIsGivenToTheTenantThatWasSlowLongestAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &slots{free: 1}
		if !l.take(t.Context(), time.Time{}) {
			t.Fatal("no place")
		}
		var order []string
		var wg sync.WaitGroup
		for _, w := range []struct {
			name string
			slow int64
		}{{"just now", 9}, {"long ago", 1}, {"lately", 5}, {"long ago, later", 1}, {"leaves", 0}} {
			ctx, cancel := context.WithCancel(t.Context())
			wg.Go(func() {
				if l.take(ctx, time.Unix(w.slow, 0)) {
					order = append(order, w.name)
					l.give()
				}
			})
			synctest.Wait()
			if w.name == "leaves" {
				cancel()
				synctest.Wait()
			}
			defer cancel()
		}
		l.give()
		wg.Wait()
		if got := strings.Join(order, ", "); got != "long ago, long ago, later, lately, just now" || l.free != 1 || len(l.waiting) != 0 {
			t.Errorf("got %s; %d free, %d waiting", got, l.free, len(l.waiting))
		}
	})
}
