package kube_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"notifier/internal/reconcile/kube"
)

// T6: fails when a namespace waits behind all earlier keys of another, or when one namespace's keys lose their order.
func TestT6NamespacesTakeTurnsInAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		begin := make(chan struct{})
		c := kube.NewController(kube.ControllerOptions[kube.Key]{
			Workers: 1, Parts: kube.Key.Parts, Log: discard(),
			Reconcile: func(_ context.Context, k kube.Key) error {
				<-begin
				got = append(got, k.String())
				return nil
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { c.Run(ctx) })
		synctest.Wait() // the queue is open: earlier keys have no order
		const many = 100
		for i := range many {
			c.Enqueue(kube.Key{Namespace: "flood", Name: strconv.Itoa(i)})
		}
		synctest.Wait() // the worker has the first one
		for i := range 2 {
			c.Enqueue(kube.Key{Namespace: "team-a", Name: strconv.Itoa(i)})
		}
		if n := c.Len(); n != many+1 {
			t.Errorf("%d keys wait, want %d", n, many+1)
		}
		close(begin)
		synctest.Wait()
		cancel()
		wg.Wait()
		want := []string{"flood/0", "flood/1", "team-a/0", "flood/2", "team-a/1", "flood/3"}
		if len(got) != many+2 || !slices.Equal(got[:len(want)], want) {
			t.Errorf("%d keys were reconciled: got %v, want %v", len(got), got[:min(len(got), len(want))], want)
		}
	})
}
