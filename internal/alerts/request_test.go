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
		r := newRequests()
		end, err := r.begin(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		var began []string
		for _, namespace := range []string{"a", "b"} {
			go func() {
				end, err := r.begin(t.Context(), namespace)
				if err != nil {
					return
				}
				began = append(began, namespace)
				end()
			}()
			synctest.Wait()
		}
		if !slices.Equal(began, []string{"b"}) {
			t.Errorf("began %v", began)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.begin(ctx, "a"); err == nil {
			t.Error("began after the end")
		}
		end()
		synctest.Wait()
		if !slices.Equal(began, []string{"b", "a"}) || r.turns.Len() != 0 {
			t.Errorf("began %v", began)
		}
	})
}
