package apply

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// pending returns the claims of all jobs of a term.
func (t *term) pending() (claims, jobs int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, j := range t.jobs {
		claims += len(j.pending)
	}
	return claims, len(t.jobs)
}

// selectors adds a Receiver with selectors that each select so many objects, and publishes a webhook for each.
func (w *world) selectors(name string, selectors, objects int) (holds []*fakeHold) {
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
		holds = append(holds, w.send(trigger(r, target)))
	}
	synctest.Wait()
	return holds
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
// Every trigger is still applied. Fails when jobs do not wait until their namespace has fewer claims, or for ever.
func TestT6ATenantsClaimsAreBoundedAndAllAreMet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const objects, selectors = 2000, 10 * maxClaims / 2000
		// No burst of requests: hundreds at one instant would end claims before the test looks.
		w := newWorld(t, func(o *Options) { o.Burst = 16 })
		defer w.stop()
		w.occupy(time.Second) // so that all jobs are in the queue before the first is resolved
		w.selectors("many", selectors, objects)
		term := w.applier.term.Load()
		peak := 0
		for range 300 {
			claims, _ := term.pending()
			peak = max(peak, claims)
			pass(10 * time.Millisecond)
		}
		if most := maxClaims + w.applier.opts.Workers*objects; peak > most || peak < maxClaims {
			t.Errorf("%d claims, want at least %d and at most %d", peak, maxClaims, most)
		}
		// Another tenant is served meanwhile.
		other := w.receiver("team", "r", "sa", repo("app"))
		hold := w.hook(other)
		pass(2 * time.Second)
		if got := hold.String(); got != "done" {
			t.Errorf("another tenant's trigger is %s", got)
		}
		pass(5 * time.Minute)
		if claims, jobs := term.pending(); claims+jobs+len(term.claims) > 0 {
			t.Errorf("%d claims of %d jobs are left, and %d counts", claims, jobs, len(term.claims))
		}
	})
}

// T4, T6: claims that are refused for good count no more, and jobs that wait go back to the bus at the end of the term. Fails when a claim
// is counted after its end, or a job that waits is lost.
func TestT6RefusedClaimsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const objects, selectors = 2000, 2 * maxClaims / 2000
		w := newWorld(t)
		defer w.stop()
		w.api.respond(always(http.StatusForbidden))
		w.occupy(time.Second)
		holds := w.selectors("refused", selectors, objects)
		pass(20 * time.Second)
		term := w.applier.term.Load()
		if claims, _ := term.pending(); claims < maxClaims || term.claims["full"]+term.claims["busy"] != claims {
			t.Errorf("%d claims, counted %v, want at least %d", claims, term.claims, maxClaims)
		}
		w.bus.endTerm()
		for _, h := range holds {
			w.want(h, "returned")
		}
		w.selectors("refused", 1, 200)
		pass(20 * time.Minute)
		if term := w.applier.term.Load(); len(term.claims)+len(term.jobs) > 0 {
			t.Errorf("%d jobs and the counts %v are left", len(term.jobs), term.claims)
		}
	})
}
