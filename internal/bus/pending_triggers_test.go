package bus

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"notifier/internal/alloctest"
	"notifier/internal/event"
)

// T3, T4: a webhook may be coalesced only with a trigger that is on disk and waits here. Fails when Take does not end that, when covers
// does not compare the Receiver, or when a coalesced webhook is not counted.
func TestATriggerThatWaitsStandsForLaterOnesUntilItIsTaken(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	held := make(chan event.Message[event.Trigger])
	start(t, triggerTo(b, held))
	publish := func(uid string, accepted int64) {
		t.Helper()
		trigger := testTrigger("team-a", "k", accepted)
		trigger.ReceiverUID = uid
		must(t, b.PublishTriggers(testContext(t), trigger))
	}
	written := func() uint64 {
		t.Helper()
		info, err := b.streams[streamTriggers].Info(testContext(t))
		must(t, err)
		return info.State.LastSeq
	}
	publish("u", 1)
	first := receive(t, held)
	for i := range int64(10) {
		publish("u", 2+i)
	}
	if got := written(); got != 1 {
		t.Errorf("%d triggers were written, want the first alone", got)
	}
	if got := testutil.ToFloat64(b.metrics.folded); got != 10 {
		t.Errorf("%v triggers are counted as folded, want all that the first stands for", got)
	}
	publish("another Receiver", 20)
	if got := written(); got != 2 {
		t.Errorf("another Receiver's trigger was not written: %d", got)
	}
	second := receive(t, held)
	must(t, first.Ack(testContext(t)))
	publish("another Receiver", 21)
	if got := written(); got != 2 {
		t.Errorf("the end of the older trigger ended what the newer one stands for: %d written", got)
	}
	second.Take()
	publish("another Receiver", 22)
	if got := written(); got != 3 {
		t.Errorf("a trigger that was accepted after the work began was not written: %d", got)
	}
	third := receive(t, held)
	must(t, third.Nak())
	publish("another Receiver", 23)
	if got := written(); got != 4 {
		t.Errorf("a trigger was coalesced with one that was given back: %d written", got)
	}
}

// T6: an authentic webhook is never refused, and its Receiver may have 512 targets. Fails when a flood of them, whose triggers wait already,
// costs memory for each target.
func TestT6AFloodOfManyTargetsAllocatesNothingForEach(t *testing.T) {
	const targets, webhooks = 512, 100
	b := open(t, t.TempDir(), nil)
	held := make(chan event.Message[event.Trigger], targets)
	start(t, triggerTo(b, held))
	triggers := make([]event.Trigger, targets)
	for i := range triggers {
		triggers[i] = testTrigger("team-a", fmt.Sprint("k", i), 1)
	}
	publish := func() { must(t, b.PublishTriggers(t.Context(), triggers...)) }
	publish()
	for range targets {
		receive(t, held)
	}
	used := alloctest.Bytes(func() {
		for range webhooks {
			publish()
		}
	})
	if folded := testutil.ToFloat64(b.metrics.folded); folded != targets*webhooks || used > webhooks*targets*16 {
		t.Errorf("%d webhooks of %d targets allocate %d KiB, and %v triggers are folded", webhooks, targets, used>>10, folded)
	}
}

// T3: the server hands a trigger out as soon as it has stored it, before the sync of its publish. Fails when covers does not check whether
// the trigger is on disk.
func TestT3ATriggerStandsForLaterOnesOnlyOnceItIsOnDisk(t *testing.T) {
	disk := &heldDisk{}
	b := open(t, t.TempDir(), func(o *Options) { o.fsync = disk.fsync })
	ctx := testContext(t)
	held := make(chan event.Message[event.Trigger])
	start(t, triggerTo(b, held))
	disk.gate = make(chan struct{})
	release := sync.OnceFunc(func() { close(disk.gate) })
	t.Cleanup(release)
	publish := func(accepted int64) <-chan error {
		answer := make(chan error, 1)
		go func() { answer <- b.PublishTriggers(ctx, testTrigger("team", "k", accepted)) }()
		return answer
	}
	first := publish(1)
	trigger := receive(t, held)
	second := publish(2)
	for waiting := false; !waiting && ctx.Err() == nil; {
		b.triggers.mu.Lock()
		waiting = b.triggers.waiting.Len() > 0
		b.triggers.mu.Unlock()
		if len(first)+len(second) > 0 {
			t.Fatal("answered before the sync")
		}
	}
	release()
	must(t, receive(t, first))
	must(t, receive(t, second))
	must(t, trigger.Ack(ctx))
}

// T3, T4: triggers that were in the stream at the start are on disk. Fails when only those that this process published cover others.
func TestATriggerOfBeforeTheStartStandsForLaterOnes(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, nil)
	must(t, b.PublishTriggers(testContext(t), testTrigger("team", "k", 1)))
	must(t, b.Close(testContext(t)))
	b = open(t, dir, nil)
	held := make(chan event.Message[event.Trigger])
	start(t, triggerTo(b, held))
	receive(t, held)
	must(t, b.PublishTriggers(testContext(t), testTrigger("team", "k", 2)))
	if got := testutil.ToFloat64(b.metrics.folded); got != 1 {
		t.Errorf("%v triggers were coalesced with the one of before, want 1", got)
	}
}

// T4: a stage that is handed two triggers of one target ends the first of them only. The other alone is on disk, whichever was accepted
// first. Fails when the stream keeps more than one message of a subject, or another than the last.
func TestT4OfOneTargetsTriggersTheLastIsOnDisk(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	held := make(chan event.Message[event.Trigger])
	start(t, triggerTo(b, held))
	stored := func() uint64 {
		t.Helper()
		info, err := b.streams[streamTriggers].Info(testContext(t))
		must(t, err)
		return info.State.Msgs
	}
	publish := func(uid string, accepted int64) event.Message[event.Trigger] {
		t.Helper()
		trigger := testTrigger("team-a", "k", accepted)
		trigger.ReceiverUID = uid
		must(t, b.PublishTriggers(testContext(t), trigger))
		return receive(t, held)
	}
	newer := publish("one", 2)
	older := publish("two", 1)
	must(t, newer.Ack(testContext(t)))
	if n := stored(); n != 1 {
		t.Errorf("%d messages are on disk, want the last", n)
	}
	must(t, older.Ack(testContext(t)))
	if n := stored(); n != 0 {
		t.Errorf("%d messages are on disk after the end of the last", n)
	}
}

// T3: within a term a trigger may be in hand when its consumer is taken over anew, and handed out again. The end of the first delivery also
// removes the message from the disk. Fails when a webhook is coalesced with the second delivery, which is then in memory alone; when serve is
// called again; and when the trigger is not handed out again.
func TestT3ATriggerThatIsHandedOutAgainStandsForNoOther(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	held, calls := make(chan event.Message[event.Trigger]), atomic.Int32{}
	start(t, func(ctx context.Context) error {
		return b.Triggers(ctx, func(ctx context.Context, in <-chan event.Message[event.Trigger]) error {
			calls.Add(1)
			return forward(ctx, in, held)
		})
	})
	must(t, b.PublishTriggers(ctx, testTrigger("team", "k", 1)))
	first := receive(t, held)
	must(t, b.nc.ForceReconnect())
	second := receive(t, held)
	must(t, b.PublishTriggers(ctx, testTrigger("team", "k", 2)))
	must(t, first.Ack(ctx))
	third := receive(t, held)
	must(t, b.PublishTriggers(ctx, testTrigger("team", "k", 3)))
	info, err := b.streams[streamTriggers].Info(ctx)
	must(t, err)
	if info.State.LastSeq != 2 || third.Value.Accepted.Equal(first.Value.Accepted) || calls.Load() != 1 {
		t.Errorf("%d triggers were written, want the first two; the second was accepted at %v; serve was called %d times",
			info.State.LastSeq, third.Value.Accepted, calls.Load())
	}
	must(t, second.Ack(ctx))
	must(t, third.Ack(ctx))
}

// T3: the same, and the trigger is handed out again as it was in hand for longer than the server waits, as in a process that was stopped.
func TestT3ATriggerWhoseAckWaitIsOverStandsForNoOther(t *testing.T) {
	b := open(t, t.TempDir(), func(o *Options) { o.Shards = 1 })
	ctx := testContext(t)
	held := make(chan event.Message[event.Trigger])
	start(t, triggerTo(b, held))
	must(t, b.PublishTriggers(ctx, testTrigger("team", "k", 1)))
	first := receive(t, held)
	soon := consumerConfig(triggerRole(0))
	soon.AckWait = 100 * time.Millisecond
	_, err := b.streams[streamTriggers].UpdateConsumer(ctx, soon)
	must(t, err)
	second := receive(t, held)
	if second.Seq != first.Seq {
		t.Fatalf("got the trigger %d, want %d again", second.Seq, first.Seq)
	}
	must(t, b.PublishTriggers(ctx, testTrigger("team", "k", 2)))
	must(t, first.Ack(ctx))
	info, err := b.streams[streamTriggers].Info(ctx)
	must(t, err)
	if info.State.Msgs != 1 {
		t.Errorf("%d triggers are on disk, want the second", info.State.Msgs)
	}
}
