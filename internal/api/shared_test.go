package api

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	"notifier/internal/event/view"
)

// T6. Fails when each of a user's requests for one page costs a read, or when a request is answered by a read that began before it.
// Also fails when requests for another user, namespace, list or query share the read.
func TestT6RequestsForOnePageThatWaitAreOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, user := range []string{"jane", "joe"} {
			w.authority.grant(user, "team-a", reads...)
			w.authority.grant(user, "team-b", reads...)
		}
		w.store.entered, w.store.hold = make(chan string, 100), make(chan struct{})
		var asking sync.WaitGroup
		codes := make(chan int, 100)
		ask := func(user, path string) {
			asking.Go(func() { codes <- w.ask(user, "GET", "/v1/namespaces/"+path, "").Code })
		}
		ask("jane", "team-a/deliveries")
		synctest.Wait() // it reads
		for range 20 {
			ask("jane", "team-a/deliveries")
		}
		for _, other := range []string{"team-a/deliveries?limit=7", "team-a/deliveries?cursor=x", "team-a/events", "team-b/deliveries"} {
			ask("jane", other)
		}
		ask("joe", "team-a/deliveries")
		synctest.Wait()
		close(w.store.hold)
		asking.Wait()
		close(codes)
		for code := range codes {
			if code != http.StatusOK {
				t.Errorf("one was answered %d", code)
			}
		}
		if n := len(w.store.entered); n != 1+1+4+1 {
			t.Errorf("%d reads, want that under way, one for those that waited, and 5 of others", n)
		}
	})
}

// Fails when waiting requests that share a read fail because the client of one of them has disconnected.
func TestARequestOutlivesTheClientWithWhomItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.authority.grant("jane", "team-a", reads...)
		w.store.entered, w.store.hold = make(chan string, 100), make(chan struct{})
		s, jane := w.handler.service, &User{Name: "jane"}
		ctx, gone := context.WithCancel(t.Context())
		errs := make(chan error, 3)
		ask := func(ctx context.Context) {
			_, err := s.Deliveries(ctx, jane, "team-a", view.Query{})
			errs <- err
		}
		go ask(t.Context())
		synctest.Wait() // it reads
		go ask(ctx)
		synctest.Wait() // it waits
		go ask(t.Context())
		synctest.Wait()
		gone()
		if err := <-errs; err == nil {
			t.Error("the request of the client that has gone was answered")
		}
		synctest.Wait()
		close(w.store.hold)
		for range 2 {
			if err := <-errs; err != nil {
				t.Error(fmt.Errorf("the others were answered: %w", err))
			}
		}
	})
}
