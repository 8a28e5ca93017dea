package kube_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/fair"
	"notifier/internal/reconcile/kube"
)

// T4: a namespace whose writes are slow has new ones all the time. Fails when a place that becomes free is taken by a key that came later than
// those that wait for it, or when more keys have one than may.
func TestT4TheKeysOfASlowNamespaceHaveTheirPlacesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 10
		var (
			mu     sync.Mutex
			order  []string
			atWork int
			c      *kube.Controller[kube.Key]
		)
		c = kube.NewController(kube.ControllerOptions[kube.Key]{
			Workers: 4, Each: 2, Parts: kube.Key.Parts, Log: discard(),
			Reconcile: func(ctx context.Context, k kube.Key) error {
				mu.Lock()
				order = append(order, k.Name)
				if atWork++; atWork > 2 {
					t.Errorf("%d keys of one namespace are at work, want at most 2", atWork)
				}
				mu.Unlock()
				_ = fair.Sleep(ctx, time.Second)
				if k.Name[0] == 'k' {
					c.Enqueue(kube.Key{Namespace: "team-a", Name: "later than " + k.Name})
				}
				mu.Lock()
				atWork--
				mu.Unlock()
				return nil
			},
		})
		var want []string
		for i := range keys {
			k := kube.Key{Namespace: "team-a", Name: fmt.Sprint("k", i)}
			want = append(want, k.Name)
			c.Enqueue(k)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { c.Run(ctx) })
		pass(time.Minute)
		if len(order) != 2*keys || c.Len() != 0 {
			t.Errorf("%d keys were reconciled, and %d wait", len(order), c.Len())
		}
		first := slices.Sorted(slices.Values(order[:keys]))
		if !slices.Equal(first, want) {
			t.Errorf("the first are %v, want %v", first, want)
		}
		cancel()
		wg.Wait()
	})
}
