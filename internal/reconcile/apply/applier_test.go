package apply

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"notifier/internal/event"
)

// T2: written as the tenant. Fails when write leaves out the header, or when resolve takes anything from the message.
func TestT2AReconcileRequestIsWrittenAsTheTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		r := w.receiver("team-a", "github", "deployer", repo("app"))
		accepted := time.Now()
		h := w.hook(r)
		pass(time.Second)
		w.want(h, "done")
		want := []patch{{
			user: "system:serviceaccount:team-a:deployer", manager: "notifier", contentType: "application/merge-patch+json",
			path: "/apis/source.toolkit.fluxcd.io/v1/namespaces/team-a/gitrepositories/app",
		}}
		got := w.api.seen()
		for i := range got {
			stamp, err := time.Parse(time.RFC3339Nano, got[i].stamp)
			if err != nil || stamp.Before(accepted) {
				t.Errorf("stamp %q is not a time from %v on: %v", got[i].stamp, accepted, err)
			}
			got[i].stamp, got[i].at = "", time.Time{}
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(patch{})); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

// T4: nothing piles up. Fails when the slot is per key, or when it begins at the sending of a request.
func TestT4AnObjectGetsAtMostOneRequestPerIntervalUnderAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		w.api.delay = 300 * time.Millisecond
		w.selector["a"] = nil
		w.selector["team=a"] = []string{"app"}
		receivers := []Receiver{
			w.receiver("team-a", "one", "strong", repo("app")),
			w.receiver("team-a", "two", "strong", selecting("team", "a")),
			w.receiver("team-a", "three", "weak", repo("app")),
		}
		var holds []*fakeHold
		var last time.Time
		for i := range 10_000 {
			last = time.Now().Add(time.Duration(i)) // no two webhooks at one instant
			r := receivers[i%len(receivers)]
			next := trigger(r, r.Targets[0])
			next.Accepted = last
			holds = append(holds, w.send(next))
			if i%10 == 0 {
				pass(10 * time.Millisecond) // 10 s in all
			}
		}
		pass(10 * time.Second)
		patches := w.api.seen()
		for i := 1; i < len(patches); i++ {
			if gap := patches[i].at.Sub(patches[i-1].at); gap < time.Second+w.api.delay {
				t.Fatalf("requests %d and %d are %v apart", i-1, i, gap)
			}
		}
		if len(patches) > 12 {
			t.Errorf("%d requests for a flood of 10 s", len(patches))
		}
		for i, h := range holds {
			if h.String() != "done" {
				t.Fatalf("message %d is %s", i, h)
			}
		}
		for _, account := range []string{"strong", "weak"} {
			stamped := false
			for _, p := range patches {
				stamp, err := time.Parse(time.RFC3339Nano, p.stamp)
				w.must(err)
				stamped = stamped || strings.HasSuffix(p.user, account) && !stamp.Before(last.Add(-time.Second/100))
			}
			if !stamped {
				t.Errorf("no request as %s is stamped after the last webhook", account)
			}
		}
		if n := testutil.ToFloat64(w.applier.metrics.pending); n != 0 {
			t.Errorf("%v triggers still held", n)
		}
	})
}

// T4. A waiting trigger may have webhooks coalesced into it that have no message of their own (event.Taker). Fails when Take is left
// out, or when it follows the stamp of the request.
func TestT4WhatATriggerStandsForEndsBeforeItsRequestIsStamped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		r := w.receiver("team-a", "github", "deployer", repo("app"))
		for range 3 {
			h := w.hook(r)
			pass(3 * time.Second)
			w.want(h, "done")
			patches := w.api.seen()
			stamp, err := time.Parse(time.RFC3339Nano, patches[len(patches)-1].stamp)
			if err != nil || h.taken.IsZero() || stamp.Before(h.taken) {
				t.Errorf("stamped %v, taken %v: %v", stamp, h.taken, err)
			}
		}
	})
}

// T4: nothing is lost. Fails when a request that was under way at the time of a webhook counts for it.
func TestT4AWebhookDuringARequestGetsOneOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		w.api.delay = 3 * time.Second // longer than the second webhook waits to be resolved
		r := w.receiver("team-a", "github", "deployer", repo("app"))
		first := w.hook(r)
		pass(100 * time.Millisecond)
		accepted := time.Now()
		second := w.hook(r)
		pass(10 * time.Second)
		w.want(first, "done")
		w.want(second, "done")
		patches := w.api.seen()
		if len(patches) != 2 {
			t.Fatalf("%d requests, want 2", len(patches))
		}
		if stamp, err := time.Parse(time.RFC3339Nano, patches[1].stamp); err != nil || stamp.Before(accepted) {
			t.Errorf("stamped %v, accepted %v: %v", stamp, accepted, err)
		}
	})
}

// Fails when the stamp is only the time of the write: another replica's clock is ahead.
func TestT4TheStampIsNoEarlierThanTheAcceptanceByAnotherClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		r := w.receiver("team-a", "github", "deployer", repo("app"))
		ahead := trigger(r, r.Targets[0])
		ahead.Accepted = time.Now().Add(30 * time.Second)
		h := w.send(ahead)
		pass(time.Second)
		w.want(h, "done")
		if got := w.api.seen()[0].stamp; got != ahead.Accepted.UTC().Format(time.RFC3339Nano) {
			t.Errorf("stamped %s", got)
		}
	})
}

// Fails when the trigger that was delivered last counts rather than the newest one.
func TestTheNewestTriggerOfAKeyIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		w.api.respond(always(http.StatusServiceUnavailable))
		r := w.receiver("team-a", "github", "deployer", repo("app"))
		older := trigger(r, r.Targets[0])
		pass(time.Second)
		first := w.hook(r)
		pass(time.Millisecond)
		newest := w.applier.wanted("team-a").Accepted
		late := w.send(older)
		pass(time.Second)
		w.want(late, "held") // the bus has no other on disk
		w.want(first, "done")
		if got := w.applier.wanted("team-a").Accepted; !got.Equal(newest) {
			t.Errorf("accepted %v, want %v", got, newest)
		}
		second := w.hook(r)
		pass(time.Second)
		w.want(late, "done")
		w.want(second, "held")
		redelivery := &fakeHold{} // the bus delivers the same message once more
		w.bus.in <- event.Message[event.Trigger]{Value: w.applier.wanted("team-a"), Acker: redelivery}
		w.api.respond(nil)
		pass(time.Minute)
		w.want(second, "held") // an ack of it would have ended the redelivery too early
		w.want(redelivery, "done")
	})
}

// wanted returns the single trigger at work in a namespace.
func (a *Applier) wanted(namespace string) event.Trigger {
	term := a.term.Load()
	term.mu.Lock()
	defer term.mu.Unlock()
	for k, j := range term.jobs {
		if k.namespace == namespace {
			return *j.trigger
		}
	}
	return event.Trigger{}
}

// Fails when one account's success ends the other's claim, or when one's refusal ends it.
func TestTwoServiceAccountsOnOneTargetAreEachTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		w.api.respond(func(p patch) (int, http.Header) {
			if strings.HasSuffix(p.user, ":weak") {
				return http.StatusForbidden, nil
			}
			return http.StatusOK, nil
		})
		strong := w.receiver("team-a", "strong", "strong", repo("app"))
		weak := w.receiver("team-a", "weak", "weak", repo("app"))
		refused, ok := w.hook(weak), w.hook(strong)
		pass(3 * time.Second)
		w.want(ok, "done")
		w.want(refused, "held")
		if d := w.health("team-a/weak").Denied; len(d) != 1 || d[0].ServiceAccount != "weak" {
			t.Errorf("denied %+v", d)
		}
		if d := w.health("team-a/strong").Denied; len(d) != 0 {
			t.Errorf("the strong Receiver is denied %+v", d)
		}
	})
}

// Fails when objects are slotted by selector, or when a request as the same account does not count for both.
func TestTwoSelectorsOfOneKindReachAllTheirObjectsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		w.api.delay = 500 * time.Millisecond
		w.selector["team=a"] = []string{"one", "both"}
		w.selector["tier=1"] = []string{"both", "two"}
		r := w.receiver("team-a", "github", "deployer", selecting("team", "a"), selecting("tier", "1"))
		first, second := w.send(trigger(r, r.Targets[0])), w.send(trigger(r, r.Targets[1]))
		pass(5 * time.Second)
		w.want(first, "done")
		w.want(second, "done")
		got := map[string]int{}
		for _, p := range w.api.seen() {
			got[p.object()]++
		}
		if diff := cmp.Diff(map[string]int{"one": 1, "two": 1, "both": 1}, got); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

func TestASelectorThatMatchesNothingIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		h := w.hook(w.receiver("team-a", "github", "deployer", selecting("team", "a")))
		pass(time.Second)
		w.want(h, "done")
		if n := testutil.ToFloat64(w.applier.metrics.triggers.WithLabelValues(resultNoMatch)); n != 1 {
			t.Errorf("counted %v times", n)
		}
	})
}

// Fails when the queue is first come, first served over all namespaces.
func TestNamespacesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.QPS, o.Burst, o.Workers = 10, 1, 1 })
		defer w.stop()
		var names []string
		for i := range 1000 {
			names = append(names, fmt.Sprint("app-", i))
		}
		w.selector["team=a"] = names
		w.hook(w.receiver("flooding", "github", "deployer", selecting("team", "a")))
		pass(time.Second)
		h := w.hook(w.receiver("team-b", "github", "deployer", repo("app")))
		pass(time.Second)
		w.want(h, "done")
		if n := len(w.api.seen()); n > 25 {
			t.Errorf("%d requests in 2 s at 10 a second", n)
		}
	})
}

// Fails when a term's first request does not wait, or when the change of worker breaks the interval.
func TestANewOwnerWaitsOneInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.Interval = 5 * time.Second })
		defer w.stop()
		r := w.receiver("team-a", "github", "deployer", repo("app"))
		w.bus.endTerm()
		began := time.Now()
		w.hook(r)
		pass(20 * time.Second)
		if got := w.api.seen()[0].at.Sub(began); got < 5*time.Second {
			t.Errorf("the first request came %v after the takeover", got)
		}
	})
}

// Fails when drain does not wait, drops the waiting triggers, or returns the answered ones.
func TestDrainFinishesWhatIsInFlightAndReturnsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		r := w.receiver("team-a", "github", "deployer", repo("quick"), repo("slow"), repo("waiting"))
		w.hook(Receiver{
			Namespace: "team-a", Name: "github", UID: r.UID, ServiceAccount: "deployer", Targets: []event.Target{repo("waiting")},
		})
		pass(time.Second / 2)
		w.api.delay = 2 * time.Second
		quick := w.send(trigger(r, r.Targets[0]))
		pass(time.Second)
		w.api.mu.Lock()
		w.api.delay = 8 * time.Second
		w.api.mu.Unlock()
		slow := w.send(trigger(r, r.Targets[1]))
		pass(time.Second / 2)
		began := time.Now()
		waiting := &fakeHold{}
		w.api.mu.Lock()
		w.api.err = fmt.Errorf("connection refused")
		w.api.mu.Unlock()
		w.bus.in <- event.Message[event.Trigger]{Value: trigger(r, event.Target{Kind: "X", Name: "y"}), Acker: &fakeHold{}}
		w.bus.in <- event.Message[event.Trigger]{Value: trigger(r, r.Targets[2]), Acker: waiting}
		w.stop()
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("stopped after %v", took)
		}
		w.want(quick, "done")
		w.want(slow, "returned")
		if got := waiting.String(); got != "returned" {
			t.Errorf("what waited is %s", got)
		}
	})
}

// Fails when keep does not run: the bus would deliver the messages to another replica after 30 s.
func TestHeldTriggersAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		w.api.respond(always(http.StatusServiceUnavailable))
		h := w.hook(w.receiver("team-a", "github", "deployer", repo("app")))
		pass(65 * time.Second)
		if h.working < 6 {
			t.Errorf("said %d times in 65 s that it is working", h.working)
		}
		w.want(h, "held")
	})
}

// Fails when Run does not wait for the Receivers: the trigger would end as that of a missing Receiver.
func TestNothingIsTakenBeforeAllReceiversAreCompiled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		w := newWorld(t, func(o *Options) { o.Compiled = gate })
		defer w.stop()
		select {
		case w.bus.in <- event.Message[event.Trigger]{}:
			t.Error("taken")
		case <-time.After(time.Hour):
		}
		close(gate)
		h := w.hook(w.receiver("team-a", "github", "deployer", repo("app")))
		pass(3 * time.Second)
		w.want(h, "done")
	})
}

// Fails when slots stay: tenants' selectors decide their number.
func TestSlotsAreForgottenWhenTheirIntervalIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		for i := range 100 {
			w.selector["team=a"] = append(w.selector["team=a"], fmt.Sprint("app-", i))
		}
		h := w.hook(w.receiver("team-a", "github", "deployer", selecting("team", "a")))
		pass(10 * time.Second)
		w.want(h, "done")
		term := w.applier.term.Load()
		term.mu.Lock()
		defer term.mu.Unlock()
		if len(term.slots) != 0 || len(term.jobs) != 0 {
			t.Errorf("%d slots and %d jobs stay", len(term.slots), len(term.jobs))
		}
	})
}
