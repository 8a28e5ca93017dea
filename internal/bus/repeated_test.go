package bus

import (
	"testing"
	"time"

	"notifier/internal/event"
)

// TestE2WhatWasHandledIsPublishedAgain is about the streams' own window of duplicates: a delivery whose acknowledgement was lost dies, or is
// replayed, under the ID of a message that was handled meanwhile. Fails when the stream drops it, so that nothing is left of the delivery,
// or when a publish whose answer was lost is there twice.
func TestE2WhatWasHandledIsPublishedAgain(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	d := testDelivery("1", "team", "slack")
	letters := func(want int) []event.Dead {
		t.Helper()
		found, err := b.DeadLetters(ctx, "team", "slack", time.Time{})
		must(t, err)
		if len(found) != want {
			t.Fatalf("%d letters instead of %d", len(found), want)
		}
		return found
	}
	waiting := func(want int) {
		t.Helper()
		info, err := b.streams[streamDeliveries].Info(ctx)
		must(t, err)
		if got := int(info.State.Msgs); got != want {
			t.Fatalf("%d messages instead of %d", got, want)
		}
	}
	for range 2 {
		must(t, b.DeadLetter(ctx, &d, "client", "refused"))
	}
	letter := letters(1)[0]
	letter.Delivery = replayed(letter.Delivery, 1, false)
	must(t, b.Replay(ctx, letter))
	letters(0)
	waiting(1)
	must(t, b.DeadLetter(ctx, &d, "client", "refused"))
	second := letters(1)[0]
	second.Delivery = letter.Delivery
	must(t, b.Replay(ctx, second))
	letters(0)
	waiting(1)
	must(t, b.streams[streamDeliveries].Purge(ctx))
	must(t, b.DeadLetter(ctx, &d, "client", "refused"))
	third := letters(1)[0]
	third.Delivery = letter.Delivery
	must(t, b.Replay(ctx, third))
	waiting(1)
}

// TestE2AReschedulePassesOneThatAnOlderCopyReplaced fails when the stream drops a reschedule for one of the same number that an older copy of
// the delivery has replaced: after the acknowledgement that follows, nothing is left of the delivery.
func TestE2AReschedulePassesOneThatAnOlderCopyReplaced(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	d := testDelivery("1", "team", "slack")
	shard := b.DeliveryShard("team", "slack")
	put := func(reschedules int, after time.Duration) event.Recalled {
		t.Helper()
		d.Reschedules = reschedules
		must(t, b.Reschedule(ctx, &d, time.Now().Add(after)))
		r, err := b.Recall(ctx, shard, event.Scheduled{
			ID: d.ID, Order: d.Order, Namespace: "team", Provider: "slack", ObjectKey: event.ObjectKey(d.Object()),
		})
		must(t, err)
		return r
	}
	put(2, time.Minute)
	older := put(1, time.Hour)
	r := put(2, time.Minute)
	must(t, older.Held.Ack(ctx))
	if got, err := b.Backlog(ctx, shard); len(got) != 1 || err != nil || r.Held.Value.Reschedules != 2 {
		t.Errorf("%d wait (%v), rescheduled %d times", len(got), err, r.Held.Value.Reschedules)
	}
}
