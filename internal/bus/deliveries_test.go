package bus

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go"

	"notifier/internal/event"
)

var byID = cmpopts.SortSlices(func(a, b event.Scheduled) bool { return a.ID < b.ID })

// Fails when Reschedule uses the delivery's own ID as the message's: the stream drops it as a duplicate, with a nil error.
func TestARescheduledDeliveryComesBackAtItsTimeWithItsState(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), func(o *Options) { o.Shards = 1 })
	ctx := testContext(t)
	must(t, publishDeliveries(ctx, b, []event.Delivery{testDelivery("1", "my team", "slack.ops")}))
	held := make(chan event.Message[event.Delivery])
	start(t, deliverTo(b, held))
	for reschedules := 1; reschedules <= 3; reschedules++ {
		h := receive(t, held)
		d := h.Value
		d.Reschedules, d.Attempts, d.LastError = reschedules, reschedules, "timeout"
		at := time.Now().Add(50 * time.Millisecond)
		must(t, b.Reschedule(ctx, &d, at.Add(time.Hour)))
		must(t, h.Ack(ctx))
		want := []event.Scheduled{{
			ID: "1", Order: 7, Namespace: "my team", Provider: "slack.ops", ObjectKey: event.ObjectKey("Kustomization/my team/app"),
		}}
		backlog, err := b.Backlog(ctx, 0)
		must(t, err)
		if diff := cmp.Diff(want, backlog); diff != "" {
			t.Fatalf("after reschedule %d: %s", reschedules, diff)
		}
		// Another time for the same delivery replaces the first one.
		again := d
		again.Reschedules += 100
		must(t, b.Reschedule(ctx, &again, at))
		if backlog, err = b.Backlog(ctx, 0); err != nil || len(backlog) != 1 {
			t.Fatalf("after a second reschedule: %v, %v", backlog, err)
		}
		back := receive(t, held)
		if early := time.Until(at); early > 0 {
			t.Errorf("came back %s too early", early)
		}
		again.Recheck = true
		if diff := cmp.Diff(again, back.Value); diff != "" {
			t.Errorf("came back changed: %s", diff)
		}
		if backlog, err = b.Backlog(ctx, 0); err != nil || len(backlog) != 1 || !backlog[0].Due {
			t.Errorf("after it came back: %v, %v", backlog, err)
		}
		must(t, back.Nak())
	}
}

// Invariant E2: the schedule survives kill -9, without a consumer of its subjects. Fails when the retry subjects are not part of the
// stream, or get a consumer that acknowledges them.
func TestTheScheduleSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	oneShard := func(o *Options) { o.Shards = 1 }
	b := open(t, dir, oneShard)
	var want []event.Scheduled
	for i, id := range []string{"a", "b", "c"} {
		d := testDelivery(id, "team", "slack")
		d.Reschedules, d.Order = 1, uint64(i)
		at := time.Now().Add(time.Hour)
		if id == "c" {
			at = time.Now().Add(200 * time.Millisecond) // while the process is away or just after
		} else {
			want = append(want, event.Scheduled{
				ID: id, Order: d.Order, Namespace: "team", Provider: "slack", ObjectKey: event.ObjectKey(d.Object()),
			})
		}
		must(t, b.Reschedule(testContext(t), &d, at))
	}
	die(b)
	b = open(t, dir, oneShard)
	held := make(chan event.Message[event.Delivery])
	start(t, deliverTo(b, held))
	h := receive(t, held)
	if h.Value.ID != "c" || !h.Value.Recheck {
		t.Errorf("off the schedule came %s, recheck %v", h.Value.ID, h.Value.Recheck)
	}
	backlog, err := b.Backlog(testContext(t), 0)
	must(t, err)
	want = append(want, scheduledOf(&h.Value))
	want[len(want)-1].Due = true
	if diff := cmp.Diff(want, backlog, byID); diff != "" {
		t.Error(diff)
	}
}

// Fails when publishAll drops messages that share a batch with a duplicate.
func TestADeliveryPublishedTwiceIsThereOnce(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	var ds []event.Delivery
	for _, id := range ids(50) {
		ds = append(ds, testDelivery(id, "team", "slack"))
	}
	must(t, publishDeliveries(ctx, b, ds[:30]))
	must(t, publishDeliveries(ctx, b, ds))
	held := make(chan event.Message[event.Delivery])
	start(t, deliverTo(b, held))
	var got []string
	for range ds {
		h := receive(t, held)
		got = append(got, h.Value.ID)
		must(t, h.Ack(ctx))
	}
	slices.Sort(got)
	if diff := cmp.Diff(ids(50), got); diff != "" {
		t.Error(diff)
	}
	if n, err := pendingOf(ctx, b, "team"); n != 0 || err != nil {
		t.Errorf("%d are left (%v)", n, err)
	}
}

// Fails when a delivery that is too large cannot be told from one that the bus may take later, or when no dead letter can be made of it.
func TestADeliveryTooLargeForTheBusIsRefused(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	d := testDelivery("large", "team", "slack")
	d.Event.Message = strings.Repeat("é", int(b.nc.MaxPayload())/2) // the rest of the delivery makes it too large
	d.Reschedules = 1
	if err := b.Reschedule(ctx, &d, time.Now().Add(time.Hour)); !errors.Is(err, event.ErrTooLarge) {
		t.Errorf("a reschedule: %v", err)
	}
	if err := b.Replay(ctx, event.Dead{Delivery: d}); !errors.Is(err, event.ErrTooLarge) {
		t.Errorf("a replay: %v", err)
	}
	must(t, b.DeadLetter(ctx, &d, event.LabelTooLarge, "reason"))
	if n, err := pendingOf(ctx, b, "team"); n != 0 || err != nil {
		t.Errorf("%d pending (%v)", n, err)
	}
	if dead := deadLetters(t, b); len(dead) != 1 || header(dead[0].Header, headerLabel) != event.LabelTooLarge {
		t.Errorf("dead letters: %v", dead)
	}
	r := testRecord("large", "team", "app")
	r.Event.Message = d.Event.Message
	if _, err := b.PublishEvent(ctx, r); !errors.Is(err, ErrTooLarge) {
		t.Errorf("event too large: %v", err)
	}
}

// Fails when a tenant's long name ends the connection, and with it the process, at each start anew.
func TestASubjectThatIsTooLongIsRefusedAndEndsNothing(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	for _, name := range []string{strings.Repeat("a", 4100), strings.Repeat(".", 1400)} {
		d := testDelivery("long", "team", name)
		if err := b.Reschedule(ctx, &d, time.Now().Add(time.Hour)); !errors.Is(err, ErrTooLarge) {
			t.Errorf("a name of %d bytes: %v", len(name), err)
		}
	}
	d := testDelivery("short", "team", "slack")
	must(t, b.Reschedule(ctx, &d, time.Now().Add(time.Hour)))
	readyWhen(t, b, "")
}

func TestWasSentKnowsWhatSentRecorded(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, nil)
	ctx := testContext(t)
	d, other := testDelivery("1", "team", "a.b"), testDelivery("1", "team", "a")
	if sent, err := b.WasSent(ctx, &d); sent || err != nil {
		t.Errorf("before: %v, %v", sent, err)
	}
	must(t, b.Sent(ctx, &d))
	die(b)
	b = open(t, dir, nil)
	if sent, err := b.WasSent(ctx, &d); !sent || err != nil {
		t.Errorf("after: %v, %v", sent, err)
	}
	if sent, err := b.WasSent(ctx, &other); sent || err != nil {
		t.Errorf("another provider's: %v, %v", sent, err)
	}
}

func TestAReturnedMessageIsHandedOutAgainForARecheck(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	held := make(chan event.Message[event.Delivery])
	start(t, deliverTo(b, held))
	must(t, publishDeliveries(ctx, b, []event.Delivery{testDelivery("1", "team", "slack")}))
	first := receive(t, held)
	must(t, first.InProgress())
	must(t, first.Nak())
	if err := first.Ack(ctx); !errors.Is(err, nats.ErrMsgAlreadyAckd) {
		t.Errorf("Ack after Nak: %v", err)
	}
	second := receive(t, held)
	if !second.Value.Recheck {
		t.Error("not marked for a recheck")
	}
	must(t, second.Ack(ctx))
	if err := second.Nak(); !errors.Is(err, nats.ErrMsgAlreadyAckd) {
		t.Errorf("Nak after Ack: %v", err)
	}
}

// Fails when the stream discards old triggers instead of refusing new ones.
func TestAFullStreamOfTriggersRefusesNewTargetsAndReplacesOldOnes(t *testing.T) {
	b := open(t, t.TempDir(), func(o *Options) { o.Budgets.Triggers = 64 << 10 })
	ctx := testContext(t)
	n := 0
	for ; ; n++ {
		err := b.PublishTriggers(ctx, testTrigger(fmt.Sprint("team", n), fmt.Sprint("key", n), 1)) // each namespace has room
		if errors.Is(err, ErrFull) {
			break
		}
		must(t, err)
	}
	held := make(chan event.Message[event.Trigger])
	start(t, triggerTo(b, held))
	var got []string
	for range n {
		h := receive(t, held)
		got = append(got, h.Value.Key)
		must(t, h.Ack(ctx))
	}
	slices.Sort(got)
	if len(slices.Compact(got)) != n {
		t.Errorf("%d distinct triggers of %d accepted", len(slices.Compact(got)), n)
	}
	must(t, b.PublishTriggers(ctx, testTrigger("team", "room again", 1)))
}

func TestOneTargetHasOnePendingTriggerTheNewest(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	for i := range 10 {
		must(t, b.PublishTriggers(ctx, testTrigger("team", "key", int64(i))))
	}
	must(t, b.PublishTriggers(ctx, testTrigger("team", "other", 1)))
	held := make(chan event.Message[event.Trigger])
	start(t, triggerTo(b, held))
	got := map[string]int64{}
	for range 2 {
		h := receive(t, held)
		got[h.Value.Key] = h.Value.Accepted.Unix()
		must(t, h.Ack(ctx))
	}
	if diff := cmp.Diff(map[string]int64{"key": 9, "other": 1}, got); diff != "" {
		t.Error(diff)
	}
}

// Invariant E4: in a batch that the server refuses, no message overtakes one of its subject that failed. Fails when publishFirsts continues
// with a subject after a failure, or publishes all messages of a subject at once.
func TestNothingOvertakesAMessageThatWasRefused(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	var msgs []*nats.Msg
	for _, id := range ids(2 * 16) {
		for _, provider := range []string{"slack", "teams"} {
			d := testDelivery(provider+id, "team", provider)
			m, err := encodeDelivery(prefixDeliver+"0.team."+provider, d.ID, &d)
			must(t, err)
			if d.ID == "slack0005" {
				m.Header.Set(nats.ExpectedLastMsgIdHdr, "another")
			}
			msgs = append(msgs, m)
		}
	}
	for i, o := range b.publishAll(ctx, streamDeliveries, msgs) {
		id := msgs[i].Header.Get(headerID)
		if want := strings.HasPrefix(id, "slack") && id >= "slack0005"; (o.err != nil) != want {
			t.Errorf("%s: %v", id, o.err)
		}
	}
	stored := map[string][]string{}
	for seq := 1; seq <= 5+2*16; seq++ {
		raw, err := b.streams[streamDeliveries].GetMsg(ctx, uint64(seq))
		must(t, err)
		stored[raw.Subject] = append(stored[raw.Subject], raw.Header.Get(headerID))
	}
	for subject, got := range stored {
		if len(got) != 5 && len(got) != 2*16 || !slices.IsSorted(got) {
			t.Errorf("%s: %v", subject, got)
		}
	}
}

// A recalled delivery stays on the schedule until it is done, and neither a reschedule in between nor a time that has come is an error.
func TestARecalledDeliveryStaysOnTheScheduleUntilItIsDone(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), func(o *Options) { o.Shards = 1 })
	ctx := testContext(t)
	d := testDelivery("1", "my team", "slack.ops")
	d.Reschedules = 1
	at := time.Now().Add(time.Hour)
	must(t, b.Reschedule(ctx, &d, at))
	recall := func() event.Recalled {
		t.Helper()
		r, err := b.Recall(ctx, 0, scheduledOf(&d))
		must(t, err)
		return r
	}
	first := recall()
	if !first.At.Equal(at) || first.Due {
		t.Fatalf("at %v, due %v", first.At, first.Due)
	}
	if diff := cmp.Diff(d, first.Held.Value); diff != "" {
		t.Error(diff)
	}
	must(t, first.Held.Nak())
	second := recall()
	d.Reschedules = 2
	must(t, b.Reschedule(ctx, &d, at.Add(time.Hour)))
	must(t, second.Held.Ack(ctx))
	if third := recall(); third.At.Before(at.Add(time.Minute)) {
		t.Errorf("the reschedule was not kept, at %v", third.At)
	} else {
		must(t, third.Held.Ack(ctx))
	}
	if gone := recall(); !gone.At.IsZero() || gone.Due {
		t.Errorf("after Ack there is one at %v, due %v", gone.At, gone.Due)
	}
	d.Reschedules = 3
	must(t, b.Reschedule(ctx, &d, time.Now().Add(time.Hour)))
	late := recall()
	d.Reschedules = 4
	must(t, b.Reschedule(ctx, &d, time.Now()))
	for !recall().Due {
		if ctx.Err() != nil {
			t.Fatal("its time does not come")
		}
	}
	must(t, late.Held.Ack(ctx))
}
