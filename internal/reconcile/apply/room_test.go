package apply

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// pending returns the claims of all jobs.
func (w *world) pending() (claims, jobs int) {
	w.applier.mu.Lock()
	defer w.applier.mu.Unlock()
	for _, j := range w.applier.jobs {
		claims += len(j.pending)
	}
	return claims, len(w.applier.jobs)
}

// waiting returns the number of jobs of a namespace that wait for room.
func (w *world) waiting(namespace string) int {
	w.applier.mu.Lock()
	defer w.applier.mu.Unlock()
	if c := w.applier.claims[namespace]; c != nil {
		return len(c.waiting)
	}
	return 0
}

// selectors adds a Receiver with selectors that each select so many objects, and publishes a webhook for each.
func (w *world) selectors(name string, selectors, objects int) {
	names := make([]string, objects)
	for i := range names {
		names[i] = fmt.Sprint("app-", i)
	}
	targets := make([]event.Target, selectors)
	for i := range targets {
		targets[i] = selecting(fmt.Sprint(name, "-", i), "a")
		w.selector[targets[i].Selector()] = names
	}
	r := w.receiver("full", name, "sa", targets...)
	for _, target := range targets {
		w.send(trigger(r, target))
	}
	synctest.Wait()
}

// occupy has all workers write slow requests of another namespace.
func (w *world) occupy(d time.Duration) {
	w.api.mu.Lock()
	w.api.delay = d
	w.api.mu.Unlock()
	for i := range w.applier.opts.Workers {
		w.hook(w.receiver("busy", fmt.Sprint("r", i), "sa", repo(fmt.Sprint("app-", i))))
	}
	synctest.Wait()
	w.api.mu.Lock()
	w.api.delay = 0
	w.api.mu.Unlock()
}

// T6: the memory of a tenant's claims has a bound: a few Receivers of 512 selectors over some thousand objects would make millions of them.
// Every trigger is still applied. Fails when jobs do not wait for room, or are not woken when there is some.
func TestT6ATenantsClaimsAreBoundedAndAllAreMet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const objects, selectors = 2000, 10 * maxClaims / 2000
		// No burst of requests: hundreds at one instant would end claims, and wake all jobs that wait, before the test looks.
		w := newWorld(t, func(o *Options) { o.Burst = 16 })
		defer w.stop()
		w.occupy(time.Second) // so that all jobs are in the queue before the first is resolved
		w.selectors("many", selectors, objects)
		peak, waited := 0, 0
		for range 300 {
			claims, _ := w.pending()
			peak, waited = max(peak, claims), max(waited, w.waiting("full"))
			pass(10 * time.Millisecond)
		}
		if most := maxClaims + w.applier.opts.Workers*objects; peak > most || peak < maxClaims || waited == 0 {
			t.Errorf("%d claims, want at least %d and at most %d; %d jobs waited for room", peak, maxClaims, most, waited)
		}
		// Another tenant is served meanwhile.
		other := w.receiver("team", "r", "sa", repo("app"))
		hold := w.hook(other)
		pass(2 * time.Second)
		if got := hold.String(); got != "done" {
			t.Errorf("another tenant's trigger is %s", got)
		}
		pass(5 * time.Minute)
		if claims, jobs := w.pending(); claims+jobs+len(w.applier.claims) > 0 {
			t.Errorf("%d claims of %d jobs are left, and %d counts", claims, jobs, len(w.applier.claims))
		}
	})
}

// T4, T6: claims that are given up make room as well, and jobs that wait for room go back to the bus with their shard. Fails when a claim is
// counted after its end, or a job that waits is lost.
func TestT6WhatIsGivenUpMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.api.respond(always(http.StatusForbidden))
		w.selectors("refused", 2*maxClaims/200, 200)
		pass(20 * time.Second)
		w.stop()
		for namespace, c := range w.applier.claims {
			if c.count != 0 {
				t.Errorf("%d claims of %s are counted after the end", c.count, namespace)
			}
		}
		if claims, jobs := w.pending(); claims+jobs > 0 {
			t.Errorf("%d claims of %d jobs are left", claims, jobs)
		}
	})
}
