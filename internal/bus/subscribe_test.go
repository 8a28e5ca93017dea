package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/event"
)

// subscribeTo reads every event and sends it to the channel.
func subscribeTo(b *Bus, to chan<- *event.Record) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		return b.Subscribe(ctx, func(ctx context.Context, events event.Reader) error { return events.Read(ctx, sendTo(to)) })
	}
}

// Invariant E2: accepted and unacknowledged events trigger after a crash, also those accepted before the first reader. Fails when a new
// worker begins from now, or when the batch is acknowledged before it was handled.
func TestNoEventIsMissedOverACrashBeforeItWasHandled(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, nil)
	publishEvents(t, b, "1", "2")
	die(b)

	b = open(t, dir, nil)
	held := make(chan *event.Record)
	stop := start(t, func(ctx context.Context) error {
		return b.Subscribe(ctx, func(ctx context.Context, events event.Reader) error {
			return events.Read(ctx, func(ctx context.Context, batch []*event.Record) error {
				select {
				case held <- batch[0]:
				case <-ctx.Done():
				}
				<-ctx.Done() // killed in the middle
				return ctx.Err()
			})
		})
	})
	if r := receive(t, held); r.ID != "1" {
		t.Errorf("handled %s first", r.ID)
	}
	publishEvents(t, b, "3")
	die(b)
	stop()

	b = open(t, dir, nil)
	got := make(chan *event.Record)
	stop = start(t, subscribeTo(b, got))
	for _, want := range []string{"1", "2", "3"} {
		if r := receive(t, got); r.ID != want || !r.Recheck {
			t.Errorf("handled %s, recheck %v, want %s", r.ID, r.Recheck, want)
		}
	}
	stop()
	// Acknowledged events are not handed out again.
	publishEvents(t, b, "4")
	got = make(chan *event.Record)
	start(t, subscribeTo(b, got))
	if r := receive(t, got); r.ID != "4" {
		t.Errorf("handled %s again", r.ID)
	}
}

// Fails when a failed batch is acknowledged, or when the records are not in the stream's order.
func TestAFailedBatchIsHandledAgainByTheSubscriber(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	publishEvents(t, b, ids(50)...)
	var got []string
	failed := false
	all := make(chan struct{})
	start(t, func(ctx context.Context) error {
		return b.Subscribe(ctx, func(ctx context.Context, events event.Reader) error {
			return events.Read(ctx, func(_ context.Context, batch []*event.Record) error {
				if !failed {
					failed = true
					return errors.New("no room")
				}
				for _, r := range batch {
					got = append(got, r.ID)
				}
				if len(got) == 50 {
					close(all)
				}
				return nil
			})
		})
	})
	receive(t, all)
	if diff := cmp.Diff(ids(50), got); diff != "" {
		t.Error(diff)
	}
}

// The subscriber reads the headers that decide about a trigger and not the body. A message that is no event, or that names another
// namespace than its subject (invariant E1), is not handed out. Fails when the stream is read with bodies, or when the subject is not
// compared.
func TestTheSubscriberReadsHeadersThatTheSubjectBears(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	publishOddities(t, b)
	want := testRecord("good", "team", "app")
	want.Known, want.Labels = true, map[string]string{"app": "web"}
	_, err := b.PublishEvent(ctx, want)
	must(t, err)
	got := make(chan *event.Record)
	start(t, subscribeTo(b, got))
	want.Recheck = true
	want.Event.Message, want.Event.ReportingController = "", ""
	if diff := cmp.Diff(want, receive(t, got)); diff != "" {
		t.Error(diff)
	}
}

// T6: events whose triggers cannot be published wait in this process, those that it published too. Fails when they have their whole texts,
// or when those that are routed lack theirs.
func TestT6AnEventThatWaitsForReceiversHasLittleText(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	got, routed := make(chan *event.Record), newHeldEvents()
	start(t, subscribeTo(b, got))
	start(t, routed.read(b))
	for i, want := range []string{"", strings.Repeat("m", event.MessageStart)} {
		r := testRecord(fmt.Sprint(i), "team", "app")
		r.Event.Message = strings.Repeat("m", 1<<20)
		if want != "" {
			r.Outcome = event.OutcomeFailed
		}
		_, err := b.PublishEvent(testContext(t), r)
		must(t, err)
		if read := receive(t, got); read.Event.Message != want || read.ID != r.ID || len(r.Event.Message) != 1<<20 {
			t.Errorf("%s has %d bytes of text, want %d", read.ID, len(read.Event.Message), len(want))
		}
		h := receive(t, routed.handed)
		if text := len(h.Value.Event.Message); text != 1<<20 {
			t.Errorf("%s is routed with %d bytes of text", h.Value.ID, text)
		}
		must(t, h.Ack(testContext(t)))
	}
}

// Fails when Skip does not move the cursor ("skipped" is read), or does not call idle after it has fixed the place ("kept" is lost).
func TestSkippedMessagesAreNotReadAndLaterOnesAre(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	publishEvents(t, b, "skipped")
	got := make(chan *event.Record)
	start(t, func(ctx context.Context) error {
		return b.Subscribe(ctx, func(ctx context.Context, events event.Reader) error {
			if err := events.Skip(ctx, func() bool { publishEvents(t, b, "kept"); return true }); err != nil {
				return err
			}
			if err := events.Skip(ctx, func() bool { return false }); err != nil {
				return err
			}
			return events.Read(ctx, func(ctx context.Context, batch []*event.Record) error {
				select {
				case got <- batch[0]:
				case <-ctx.Done():
				}
				return nil
			})
		})
	})
	if r := receive(t, got); r.ID != "kept" {
		t.Errorf("read %s", r.ID)
	}
}

// Invariant E2: the flood is refused before it pushes out events that the subscriber has not handled, though all were routed. Fails when
// refresh reads the router's place alone.
func TestAFloodIsRefusedBeforeItPushesOutWhatDidNotTrigger(t *testing.T) {
	b := open(t, t.TempDir(), func(o *Options) { o.Budgets.Events = mib })
	start(t, func(ctx context.Context) error {
		return b.Events(ctx, handlerOf(light, func(context.Context, []*event.Record) error { return nil }))
	})
	flood(t, b)
	got := make(chan *event.Record)
	start(t, subscribeTo(b, got))
	if r := receive(t, got); r.ID != "0" {
		t.Errorf("the oldest event is %s", r.ID)
	}
}

// One replica of the fleet reads, and another resumes at its place. Fails when each replica has a consumer of its own: both then see "1".
func TestOneReplicaReadsForAllReceivers(t *testing.T) {
	url := remote(t)
	connect := func(name string) *Bus {
		b := open(t, "", func(o *Options) { o.URL, o.ReplicaID = url, name })
		start(t, b.Run)
		return b
	}
	one, two := connect("one"), connect("two")
	got := make(chan *event.Record)
	stopOne := start(t, subscribeTo(one, got))
	stopTwo := start(t, subscribeTo(two, got))
	publishEvents(t, one, "1")
	if r := receive(t, got); r.ID != "1" {
		t.Error(r.ID)
	}
	publishEvents(t, two, "2")
	if r := receive(t, got); r.ID != "2" {
		t.Errorf("%s was read twice", r.ID)
	}
	if one.lease.Held() {
		stopOne()
	} else {
		stopTwo()
	}
	publishEvents(t, two, "3")
	if r := receive(t, got); r.ID != "3" {
		t.Errorf("the next worker read %s", r.ID)
	}
}

// A subscriber that takes no message is found, and named, by the check of readiness. Fails when the role has no gauge, or its check is left
// out.
func TestASubscriberThatStandsStillIsNotReady(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	publishEvents(t, b, ids(recordBatch+10)...)
	reached := make(chan struct{})
	start(t, func(ctx context.Context) error {
		return b.Subscribe(ctx, func(ctx context.Context, events event.Reader) error {
			return events.Read(ctx, func(ctx context.Context, _ []*event.Record) error {
				close(reached)
				<-ctx.Done()
				return ctx.Err()
			})
		})
	})
	receive(t, reached)
	deadline := time.Now().Add(testTimeout)
	for {
		err := b.progress.check(time.Now().Add(wedgedAfter + time.Second))
		if err != nil && strings.Contains(err.Error(), "subscribe has taken nothing") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("readiness: %v", err)
		}
	}
}
