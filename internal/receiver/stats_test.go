package receiver

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/event"
	"notifier/internal/receiver/answer"
	"notifier/internal/receiver/limit"
)

// deliveries returns the counts of a hook's Receiver.
func (r *redelivery) deliveries(hook *Hook) Deliveries {
	r.t.Helper()
	rt := r.table.first(hook.Path)
	if rt == nil {
		r.t.Fatal("not served")
	}
	return rt.owner.stats.Read()
}

// Fails when an outcome is counted under another word, when a refused webhook counts as the last accepted, and when another Receiver's
// webhooks are counted.
func TestIncomingWebhooksAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := unlimited()
		limits.Receiver = limit.Budget{Rate: 0.001, Burst: 3}
		hook, quiet := newHook(t, "team-a/hook", withEvents("push")), newHook(t, "team-b/hook")
		r := newRedelivery(t, limits, hook, quiet)
		start := time.Now().UTC()
		want := Deliveries{UID: hook.UID, Since: start}
		after := func(step string, change func(*Deliveries)) {
			t.Helper()
			change(&want)
			if diff := cmp.Diff(want, r.deliveries(hook)); diff != "" {
				t.Errorf("after %s (-want +got):\n%s", step, diff)
			}
			elapse(time.Second)
		}
		r.send(hook, token, "1", "{}")
		after("an accepted one", func(d *Deliveries) {
			d.Accepted, d.Last = 1, Outcome{Time: time.Now().UTC(), ID: "1", Result: "accepted"}
		})
		r.send(hook, "wrong", "2", "{}")
		after("a forged one", func(d *Deliveries) {
			d.Refused, d.LastError = 1, Outcome{Time: time.Now().UTC(), Result: "unauthentic", Reason: "signature mismatch"}
		})
		r.send(hook, token, "1", "{}")
		after("a repeat", func(d *Deliveries) {
			d.Accepted, d.Duplicate, d.Last = 2, 1, Outcome{Time: time.Now().UTC(), ID: "1", Result: "duplicate"}
		})
		ping := push(hook.Path, token, "{}")
		ping.Header.Set("X-GitHub-Event", "ping")
		do(r.handler, ping)
		after("a ping", func(d *Deliveries) { d.Last = Outcome{Time: time.Now().UTC(), Result: "ping"} })
		star := push(hook.Path, token, "{}")
		star.Header.Set("X-GitHub-Event", "star")
		do(r.handler, star)
		after("an unlisted event", func(d *Deliveries) {
			d.Refused, d.LastError = 2, Outcome{Time: time.Now().UTC(), Result: "event", Reason: "event not listed"}
		})
		r.handler.triggers = triggersFunc(func(context.Context, event.Trigger) error { return errors.New("down") })
		r.send(hook, token, "3", "{}")
		after("one that is not stored", func(d *Deliveries) {
			d.Failed, d.LastError = 1, Outcome{Time: time.Now().UTC(), Result: "unavailable", Reason: "not stored, try again"}
		})
		r.handler.triggers = r.bus
		r.send(hook, token, "4", "{}")
		after("one over the budget", func(d *Deliveries) {
			d.Accepted, d.Folded, d.Last = 3, 1, Outcome{Time: time.Now().UTC(), ID: "4", Result: "folded"}
		})
		r.send(hook, token, "4", "{}")
		after("a repeat over the budget", func(d *Deliveries) {
			d.Accepted, d.Folded, d.Duplicate = 4, 2, 2
			d.Last = Outcome{Time: time.Now().UTC(), ID: "4", Result: "duplicate"}
		})
		if diff := cmp.Diff(Deliveries{UID: quiet.UID, Since: start}, r.deliveries(quiet)); diff != "" {
			t.Errorf("of the Receiver that got none (-want +got):\n%s", diff)
		}
	})
}

// PreviousToken shows during a rotation whether the old token is still in use. Fails when the path of the present token counts, when an
// unauthentic webhook counts, and when an authentic one counts only if it triggers.
func TestTheLastUseOfThePreviousTokenIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook, previous := newHook(t, "team-a/hook", withEvents("push")), newHook(t, "team-a/hook", withEvents("star"))
		previous.Path, previous.Previous = Path("old", "hook", "team-a"), true
		r := newRedelivery(t, unlimited())
		if err := r.table.Put("team-a/hook", hook, previous); err != nil {
			t.Fatal(err)
		}
		told := func(when string, want time.Time) {
			t.Helper()
			if got := r.deliveries(hook).PreviousToken; !got.Equal(want) {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
			elapse(time.Minute)
		}
		r.send(hook, token, "1", "{}")
		r.send(previous, "wrong", "2", "{}")
		told("it did not vouch for any", time.Time{})
		first := time.Now()
		r.send(previous, token, "3", "{}")
		told("one came that is not listed", first)
		previous.Suspended = true
		second := time.Now()
		r.send(previous, token, "4", "{}")
		told("one came while suspended", second)
		r.send(hook, token, "5", "{}")
		if err := r.table.Put("team-a/hook", hook); err != nil {
			t.Fatal(err)
		}
		told("it has gone", second)
	})
}

// Fails when a failed filter is not shown, or when its text is shown unchanged.
func TestAFailedFilterIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := newHook(t, "team-a/hook")
		hook.Filter = &selection{failed: errors.New("resources[0].filter:\nno such key" + strings.Repeat("x", maxFault))}
		r := newRedelivery(t, unlimited(), hook)
		r.send(hook, token, "1", "{}")
		d := r.deliveries(hook)
		if d.Accepted != 1 || d.LastError.Result != "filter" || !strings.HasPrefix(d.LastError.Reason, "resources[0].filter:?no such key") ||
			len(d.LastError.Reason) != maxFault {
			t.Errorf("got %+v", d)
		}
	})
}

// Fails when the fault of an accepted webhook has another time than the webhook, which would then seem to be a later one without a fault.
func TestAFailedFilterHasTheTimeOfItsWebhook(t *testing.T) {
	stats := NewStats("u", time.Unix(0, 0))
	stats.Count(hookAccepted, Received{Fault: "no such key", Proved: true}, time.Unix(1, 0))
	if d := stats.Read(); d.LastError.Reason != "no such key" || !d.LastError.Time.Equal(d.Last.Time) {
		t.Errorf("got %+v", d)
	}
}

// E7: fails when the ID is shown unchanged, or at any length.
func TestAShownIDIsShortAndPrintable(t *testing.T) {
	for id, want := range map[string]string{
		"72d3162e-cc78-11e3-81ab-4c9367dc0958": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
		"a\tb\x00c\x7fd é":                     "a?b?c?d ??",
		strings.Repeat("x", 200):               strings.Repeat("x", maxShownID),
	} {
		stats := NewStats("u", time.Unix(0, 0))
		stats.Count(hookAccepted, Received{ID: id, Proved: true}, time.Unix(1, 0))
		if got := stats.Read().Last.ID; got != want {
			t.Errorf("%q is shown as %q, want %q", id, got, want)
		}
	}
}

// Fails when counting allocates an object: a flood would allocate thousands.
func TestCountingAllocatesNothing(t *testing.T) {
	stats := NewStats("u", time.Unix(0, 0))
	for name, a := range map[string]*answer.Answer{"accepted": hookAccepted, "duplicate": hookDuplicate, "refused": hookUnlisted, "failed": hookBusy} {
		if n := testing.AllocsPerRun(100, func() {
			stats.Count(a, Received{ID: "72d3162e-cc78-11e3-81ab-4c9367dc0958", Proved: true}, time.Now())
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
