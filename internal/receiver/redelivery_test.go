package receiver

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
	"notifier/internal/receiver/limit"
)

// The answers to a repeat and to a first webhook.
const (
	saysAccepted        = `{"accepted":true}`
	saysDuplicate       = `{"accepted":true,"duplicate":true}`
	saysFoldedDuplicate = `{"accepted":true,"duplicate":true,"folded":true}`
)

// redelivery is a handler with a bus that remembers, and its table.
type redelivery struct {
	t       *testing.T
	handler *Webhooks
	table   *Table
	bus     *recorder
}

func newRedelivery(t *testing.T, limits Limits, hooks ...*Hook) *redelivery {
	bus := &recorder{}
	table := newTable(t, limits, hooks...)
	return &redelivery{t, newWebhooks(t, table, bus), table, bus}
}

// send sends a push with a webhook's ID and returns the answer and the number of triggers that it published.
func (r *redelivery) send(hook *Hook, key, id, body string) (answer string, published int) {
	r.t.Helper()
	before := r.bus.Count()
	request := push(hook.Path, key, body)
	request.Header.Set("X-GitHub-Delivery", id)
	return bodyOf(r.t, do(r.handler, request)), r.bus.Count() - before
}

// expect sends and compares.
func (r *redelivery) expect(hook *Hook, id, body, answer string, published int) {
	r.t.Helper()
	if got, n := r.send(hook, token, id, body); got != answer || n != published {
		r.t.Errorf("answered %s with %d triggers, want %s with %d", got, n, answer, published)
	}
}

// T4: fails when a repeat is not published like any webhook, and when its answer does not say that it is a repeat.
func TestARepeatIsAppliedLikeAnyWebhookAndSaysThatItIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := newHook(t, "team-a/hook", withTargets("app", "db"))
		r := newRedelivery(t, unlimited(), hook)
		r.expect(hook, "1", "{}", saysAccepted, 2)
		elapse(time.Second)
		again := time.Now()
		r.expect(hook, "1", "{}", saysDuplicate, 2)
		for _, trigger := range r.bus.Published[2:] {
			if !trigger.Accepted.Equal(again) {
				t.Errorf("the repeat's trigger is stamped %s, want %s", trigger.Accepted, again)
			}
		}
		r.expect(hook, "2", "{}", saysAccepted, 2)
		elapse(rememberFor)
		r.expect(hook, "1", "{}", saysAccepted, 2)
	})
}

// Fails when the body is no part of a webhook's identity: the ID is not signed, so a sender with one signed body could suppress the webhook
// of any ID. Also fails when a request is remembered before it is authentic, or before its triggers are stored.
func TestOnlyTheSameAuthenticStoredDeliveryIsARepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook, other := newHook(t, "team-a/hook"), newHook(t, "team-a/other")
		r := newRedelivery(t, unlimited(), hook, other)
		if got, n := r.send(hook, "wrong", "1", "{}"); n != 0 || got != `{"reason":"signature mismatch"}` {
			t.Fatalf("a forged one: %s", got)
		}
		up := r.handler.triggers
		r.handler.triggers = triggersFunc(func(context.Context, event.Trigger) error { return errors.New("down") })
		if got, n := r.send(hook, token, "1", "{}"); n != 0 || got != `{"reason":"not stored, try again"}` {
			t.Fatalf("one that is not stored: %s", got)
		}
		r.handler.triggers = up
		r.expect(hook, "1", "{}", saysAccepted, 1)
		r.expect(hook, "1", `{"other":true}`, saysAccepted, 1)
		r.expect(other, "1", "{}", saysAccepted, 1)
		r.expect(hook, "", "{}", saysAccepted, 1)
		r.expect(hook, "", "{}", saysAccepted, 1)
		r.expect(hook, "1", "{}", saysDuplicate, 1)
	})
}

// Fails when a repeat is charged to no budget, when its answer hides that it was over the budget, and when it is refused.
func TestARepeatOverTheBudgetIsFoldedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := unlimited()
		limits.Receiver = limit.Budget{Rate: 0.1, Burst: 2}
		hook := newHook(t, "team-a/hook")
		r := newRedelivery(t, limits, hook)
		r.expect(hook, "1", "{}", saysAccepted, 1)
		r.expect(hook, "1", "{}", saysDuplicate, 1)
		request := push(hook.Path, token, "{}")
		request.Header.Set("X-GitHub-Delivery", "1")
		resp := do(r.handler, request)
		if got := bodyOf(t, resp); resp.StatusCode != http.StatusAccepted || got != saysFoldedDuplicate {
			t.Errorf("got %d %s", resp.StatusCode, got)
		}
	})
}

// Fails when the remembered webhooks belong to the hook instead of the Receiver, and when they outlive the Receiver.
func TestDeliveriesAreRememberedAcrossEditsOfTheReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := newHook(t, "team-a/hook")
		r := newRedelivery(t, unlimited(), hook)
		put := func(hooks ...*Hook) {
			if err := r.table.Put("team-a/hook", hooks...); err != nil {
				t.Fatal(err)
			}
		}
		r.expect(hook, "1", "{}", saysAccepted, 1)
		put(newHook(t, "team-a/hook", withEvents("push")))
		r.expect(hook, "1", "{}", saysDuplicate, 1)
		rotated := newHook(t, "team-a/hook", onPath(Path("new", "hook", "team-a")))
		put(rotated, hook)
		r.expect(rotated, "1", "{}", saysDuplicate, 1) // sent again under the other path
		put(newHook(t, "team-a/hook", withTargets("app", "db")))
		r.expect(hook, "1", "{}", saysDuplicate, 2)
		put(newHook(t, "team-a/hook", func(h *Hook) { h.UID = "another" }))
		r.expect(hook, "1", "{}", saysAccepted, 1)
	})
}

// Fails without the bound, when an entry other than the oldest is evicted, when an entry is kept for ever, and when a quiet Receiver keeps
// the memory.
func TestRememberedDeliveriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r redeliveries
		key := func(i int) deliveryKey { return deliveryKey{id: uint64(i)} }
		known := func(from, to int) (n int) {
			for i := from; i < to; i++ {
				if r.has(key(i), time.Now()) {
					n++
				}
			}
			return n
		}
		add := func(from, to int) {
			for i := from; i < to; i++ {
				elapse(time.Millisecond)
				r.add(key(i), time.Now())
			}
		}
		add(0, maxRemembered+10)
		if a, b := known(0, 10), known(10, maxRemembered+10); a != 0 || b != maxRemembered || len(r.seen) != maxRemembered {
			t.Errorf("of the oldest ten %d are known, of the others %d; entries: %d", a, b, len(r.seen))
		}
		elapse(rememberFor)
		if got := known(0, maxRemembered+10); got != 0 {
			t.Errorf("%d are known after %s", got, rememberFor)
		}
		add(1000, 1020)
		if got := known(1000, 1020); got != 20 || len(r.seen) != maxRemembered {
			t.Errorf("of twenty more %d are known; entries: %d", got, len(r.seen))
		}
		r.expire(time.Now())
		if got := known(1000, 1020); got != 20 {
			t.Errorf("of twenty %d are known after a look at the time", got)
		}
		elapse(rememberFor)
		if r.expire(time.Now()); r.seen != nil {
			t.Error("a quiet Receiver keeps its memory")
		}
		add(0, 3)
		if got := known(0, 3); got != 3 || len(r.seen) != 3 {
			t.Errorf("of three %d are known; entries: %d", got, len(r.seen))
		}
	})
}

// selection is a Filter with a fixed choice.
type selection struct {
	triggers []event.Trigger
	failed   error
}

func (s *selection) ReadsBody() bool { return true }
func (s *selection) Select(context.Context, []byte, []byte) ([]event.Trigger, error) {
	return s.triggers, s.failed
}
