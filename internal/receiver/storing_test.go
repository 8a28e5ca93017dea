package receiver

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// stuckBus stores the triggers of floods only once it is released, and counts those that it is given until then.
type stuckBus struct {
	released chan struct{}
	mu       sync.Mutex
	waiting  map[string]int // by namespace
}

func (b *stuckBus) PublishTriggers(ctx context.Context, triggers ...event.Trigger) error {
	namespace := triggers[0].Namespace
	if !strings.HasPrefix(namespace, "flood-") {
		return nil
	}
	b.count(namespace, len(triggers))
	defer b.count(namespace, -len(triggers))
	select {
	case <-b.released:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *stuckBus) count(namespace string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting[namespace] += n
}

// T6: each trigger that is being stored takes a KiB on the bus, and a webhook has as many as its Receiver has resources. Fails when those of
// a namespace's webhooks, or of all, have no bound while the bus is slow; when another namespace's webhook is refused or waits meanwhile; or
// when their room is not free again.
func TestT6TheTriggersThatAreBeingStoredAreBounded(t *testing.T) {
	const namespaces, receivers, webhooks, targets = 5, 4, 20, 512
	var names []string
	for i := range targets {
		names = append(names, fmt.Sprint("app-", i))
	}
	var hooks []*Hook
	for n := range namespaces {
		for r := range receivers {
			hooks = append(hooks, newHook(t, fmt.Sprintf("flood-%d/r-%d", n, r), withTargets(names...)))
		}
	}
	synctest.Test(t, func(t *testing.T) {
		other := newHook(t, "team-a/other", withTargets(names...))
		limits := unlimited()
		table := newTable(t, limits, append(hooks, other)...)
		bus := &stuckBus{released: make(chan struct{}), waiting: map[string]int{}}
		w := newWebhooks(t, table, bus)
		var mu sync.Mutex
		answered := map[int]int{}
		var flood sync.WaitGroup
		for range webhooks {
			for _, hook := range hooks {
				flood.Go(func() {
					status := do(w, push(hook.Path, token, "{}")).StatusCode
					mu.Lock()
					defer mu.Unlock()
					answered[status]++
				})
			}
		}
		synctest.Wait()
		all := 0
		bus.mu.Lock()
		for namespace, n := range bus.waiting {
			all += n
			if n > int(limits.Triggers.Namespace) {
				t.Errorf("%d triggers of %s are being stored, want at most %d", n, namespace, limits.Triggers.Namespace)
			}
		}
		bus.mu.Unlock()
		if most := int(limits.Triggers.Total + namespaces*limits.Triggers.Reserve); all > most || all < int(limits.Triggers.Total)/2 {
			t.Errorf("%d triggers are being stored, want at most %d", all, most)
		}
		began := time.Now()
		if status := do(w, push(other.Path, token, "{}")).StatusCode; status != http.StatusOK || time.Since(began) != 0 {
			t.Errorf("a webhook of another namespace is answered %d after %v", status, time.Since(began))
		}
		elapse(limits.Wait)
		synctest.Wait()
		waited := answered[http.StatusServiceUnavailable]
		close(bus.released)
		flood.Wait()
		if waited == 0 || answered[http.StatusOK]+waited != namespaces*receivers*webhooks {
			t.Errorf("%d are refused after the wait for capacity, answered: %v", waited, answered)
		}
		if status := do(w, push(hooks[0].Path, token, "{}")).StatusCode; status != http.StatusOK {
			t.Errorf("after the flood a webhook is answered %d", status)
		}
		if !table.all.triggers.Idle() {
			t.Error("room for triggers is not free again")
		}
	})
}
