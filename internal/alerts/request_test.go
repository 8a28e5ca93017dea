package alerts

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
)

// TestT6ARequestWaitsOnlyForItsOwnNamespace fails when one namespace's request delays others, or when two of one namespace are served at
// a time.
func TestT6ARequestWaitsOnlyForItsOwnNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		asked := w.deliverer(w.bus.session()).asked
		first, err := asked.Acquire(t.Context(), "a", 1)
		if err != nil {
			t.Fatal(err)
		}
		var began []string
		for _, namespace := range []string{"a", "b"} {
			go func() {
				turn, err := asked.Acquire(t.Context(), namespace, 1)
				if err != nil {
					return
				}
				began = append(began, namespace)
				turn.Release()
			}()
			synctest.Wait()
		}
		if !slices.Equal(began, []string{"b"}) {
			t.Errorf("began %v", began)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := asked.Acquire(ctx, "a", 1); err == nil {
			t.Error("began after the end")
		}
		first.Release()
		synctest.Wait()
		if !slices.Equal(began, []string{"b", "a"}) || asked.Len() != 0 {
			t.Errorf("began %v", began)
		}
	})
}
