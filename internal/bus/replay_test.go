package bus

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"notifier/internal/event"
)

// replayed returns a delivery as it is replayed for the n-th time.
func replayed(d event.Delivery, n int, again bool) event.Delivery {
	d.Replays, d.Reschedules, d.Again = n, d.Reschedules+1, again
	return d
}

// TestADeliveryThatWasSentIsKnownByTheCountOfItsReplays fails when a replay of a sent delivery counts as sent already, when a sent replay
// is sent again after a crash, or when a dead letter that was sent after all is.
func TestADeliveryThatWasSentIsKnownByTheCountOfItsReplays(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, nil)
	ctx := testContext(t)
	d := testDelivery("1", "team", "slack")
	must(t, b.Sent(ctx, &d))
	first, second, letter := replayed(d, 1, true), replayed(d, 2, true), replayed(d, 1, false)
	known := func(when string, d event.Delivery, want bool) {
		t.Helper()
		if got, err := b.WasSent(ctx, &d); got != want || err != nil {
			t.Errorf("%s: %t (%v)", when, got, err)
		}
	}
	known("replayed", first, false)
	known("a dead letter that was sent after all", letter, true)
	must(t, b.Sent(ctx, &first))
	for _, when := range []string{"before a crash", "after it"} {
		known(when, d, true)
		known(when, first, true)
		known(when, second, false)
		die(b)
		b = open(t, dir, nil)
	}
}

// TestAReplayedDeliveryFailsLikeAnyOther is about the stream's own window of duplicates. Fails when a replay is rescheduled, or becomes a
// dead letter, under the ID of the time before.
func TestAReplayedDeliveryFailsLikeAnyOther(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	d := testDelivery("1", "team", "slack")
	d.Reschedules = 1
	must(t, b.Reschedule(ctx, &d, time.Now().Add(time.Minute)))
	scheduled := event.Scheduled{ID: d.ID, Order: d.Order, Namespace: "team", Provider: "slack", ObjectKey: event.ObjectKey(d.Object())}
	recall := func() event.Recalled {
		t.Helper()
		r, err := b.Recall(ctx, b.DeliveryShard("team", "slack"), scheduled)
		must(t, err)
		return r
	}
	must(t, recall().Held.Ack(ctx))
	must(t, b.DeadLetter(ctx, &d, "client", "refused"))
	letters := func(want int) []event.Dead {
		t.Helper()
		found, err := b.DeadLetters(ctx, "team", "slack", time.Time{})
		must(t, err)
		if len(found) != want {
			t.Fatalf("%d letters instead of %d", len(found), want)
		}
		return found
	}
	letter := letters(1)[0]
	letter.Delivery = replayed(letter.Delivery, 1, false)
	letter.Delivery.Reschedules = 1
	must(t, b.Replay(ctx, letter))
	letters(0)
	if r := recall(); !r.Due {
		t.Fatal("not handed out")
	}
	must(t, b.Reschedule(ctx, &letter.Delivery, time.Now().Add(time.Minute)))
	if r := recall(); r.At.IsZero() || r.Held.Value.Replays != 1 {
		t.Errorf("it is not on the schedule: %+v", r)
	}
	must(t, b.DeadLetter(ctx, &letter.Delivery, "client", "refused"))
	letters(1)
}

// TestAReplayOfWhatWasSentTakesNoLetterAway fails when Replay removes a message for a delivery that is no dead letter, or publishes it
// twice.
func TestAReplayOfWhatWasSentTakesNoLetterAway(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	dead, sent := testDelivery("1", "team", "slack"), testDelivery("2", "team", "slack")
	must(t, b.DeadLetter(ctx, &dead, "client", "refused"))
	again := event.Dead{Delivery: replayed(sent, 1, true)}
	must(t, b.Replay(ctx, again))
	must(t, b.Replay(ctx, again))
	if found, err := b.DeadLetters(ctx, "team", "slack", time.Time{}); len(found) != 1 || err != nil {
		t.Errorf("letters: %v (%v)", found, err)
	}
	if waiting, err := b.Backlog(ctx, b.DeliveryShard("team", "slack")); len(waiting) != 1 || !waiting[0].Due || waiting[0].ID != "2" || err != nil {
		t.Errorf("backlog: %+v (%v)", waiting, err)
	}
	info, err := b.streams[streamDeliveries].Info(ctx)
	must(t, err)
	if info.State.Msgs != 1 {
		t.Errorf("%d messages", info.State.Msgs)
	}
}

// TestOneProvidersDeadLettersPushOutItsOwnOldestOnly fails when DeadPerProvider has no effect, or bounds the dead letters of all together.
func TestOneProvidersDeadLettersPushOutItsOwnOldestOnly(t *testing.T) {
	for _, n := range []int{-1, MaxDeadPerProvider + 1} {
		if b, err := Open(testContext(t), testOptions(t.TempDir(), func(o *Options) { o.DeadPerProvider = n })); err == nil {
			closeBus(t, b)
			t.Errorf("%d is accepted", n)
		}
	}
	b := open(t, t.TempDir(), func(o *Options) { o.DeadPerProvider = 3 })
	ctx := testContext(t)
	for i := range 5 {
		for _, provider := range []string{"slack", fmt.Sprint("other-", i)} {
			d := testDelivery(fmt.Sprint(provider, "-", i), "team", provider)
			must(t, b.DeadLetter(ctx, &d, "expired", "not delivered"))
		}
	}
	for provider, want := range map[string][]string{"slack": {"slack-2", "slack-3", "slack-4"}, "other-0": {"other-0-0"}} {
		letters, err := b.DeadLetters(ctx, "team", provider, time.Time{})
		must(t, err)
		var got []string
		for _, l := range letters {
			got = append(got, l.Delivery.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has %v", provider, got)
		}
	}
}
