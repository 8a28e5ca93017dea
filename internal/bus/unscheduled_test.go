package bus

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"notifier/internal/event"
)

// recalled returns a delivery that was put on the schedule for the next day and is recalled.
func recalled(ctx context.Context, t *testing.T, b *Bus, id string) event.Recalled {
	t.Helper()
	d := testDelivery(id, "team-a", "chat")
	if err := b.Reschedule(ctx, &d, time.Now().Add(24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	r, err := b.Recall(ctx, b.DeliveryShard("team-a", "chat"), scheduledOf(&d))
	if err != nil || r.At.IsZero() {
		t.Fatalf("recalled: %+v, %v", r, err)
	}
	return r
}

// waiting returns the number of messages in DELIVERIES.
func waiting(ctx context.Context, t *testing.T, b *Bus) uint64 {
	t.Helper()
	info, err := b.streams[streamDeliveries].Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return info.State.Msgs
}

// T6. A Provider of one tenant is down: each delivery to it is put on the schedule for the next day, and taken off when it is over the quota.
// Fails when the server keeps the times of more of them until then than it may, in memory and in this file.
func TestT6DeliveriesThatAreTakenOffTheScheduleLeaveFewTimes(t *testing.T) {
	dir := t.TempDir()
	b, ctx := open(t, dir, nil), testContext(t)
	b.remembered = rate.NewLimiter(0, 3)
	for i := range 10 {
		must(t, recalled(ctx, t, b, fmt.Sprint(i)).Held.Ack(ctx))
	}
	if n := waiting(ctx, t, b); n != 0 {
		t.Errorf("%d messages are left", n)
	}
	closeBus(t, b)
	times, err := os.ReadFile(filepath.Join(dir, "jetstream/$G/streams/DELIVERIES/msgs/sched.db"))
	must(t, err)
	if n := binary.LittleEndian.Uint64(times[1:]); n != 3 {
		t.Errorf("the times of %d deliveries are left, want 3", n)
	}
}

// Fails when a removal that a crash has cut short leaves a message for ever, or hands out its delivery once more.
func TestARemovalFromTheScheduleThatWasCutShortIsFinished(t *testing.T) {
	b, ctx := open(t, t.TempDir(), nil), testContext(t)
	r := recalled(ctx, t, b, "one")
	if err := r.Held.Acker.(*rescheduled).setMark(ctx); err != nil {
		t.Fatal(err)
	}
	if n := waiting(ctx, t, b); n != 1 {
		t.Fatalf("%d messages, want the mark alone", n)
	}
	again, err := b.Recall(ctx, b.DeliveryShard("team-a", "chat"), scheduledOf(&r.Held.Value))
	if err != nil || !again.At.IsZero() || again.Due {
		t.Errorf("recalled once more: %+v, %v", again, err)
	}
	if n := waiting(ctx, t, b); n != 0 {
		t.Errorf("%d messages are left", n)
	}
}

// Fails when the removal of a message from the schedule has the server forget the time of the one that has replaced it.
func TestARemovalFromTheScheduleLeavesTheSuccessorItsTime(t *testing.T) {
	b, ctx := open(t, t.TempDir(), nil), testContext(t)
	r := recalled(ctx, t, b, "one")
	successor := r.Held.Value
	successor.Reschedules++
	must(t, b.Reschedule(ctx, &successor, time.Now().Add(time.Second)))
	must(t, r.Held.Ack(ctx))
	due := make(chan event.Message[event.Delivery])
	stop := start(t, deliverTo(b, due))
	defer stop()
	select {
	case m := <-due:
		must(t, m.Ack(ctx))
	case <-ctx.Done():
		t.Error("the successor is not handed out")
	}
}

// unanswered loses the answer to the next publish.
type unanswered struct {
	jetstream.JetStream
	lost bool
}

func (j *unanswered) PublishMsg(ctx context.Context, m *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	ack, err := j.JetStream.PublishMsg(ctx, m, opts...)
	if err == nil && !j.lost {
		j.lost = true
		return nil, nats.ErrTimeout
	}
	return ack, err
}

// Fails when a removal from the schedule of which an answer was lost leaves a message until the next term when it is tried again.
func TestARemovalFromTheScheduleWithoutAnAnswerIsFinished(t *testing.T) {
	for name, remembered := range map[string]rate.Limit{"as before": 0, "while a time may be remembered": rate.Inf} {
		b, ctx := open(t, t.TempDir(), nil), testContext(t)
		b.js, b.remembered = &unanswered{JetStream: b.js}, rate.NewLimiter(0, 0)
		r := recalled(ctx, t, b, "one")
		if err := r.Held.Ack(ctx); !errors.Is(err, nats.ErrTimeout) {
			t.Fatalf("%s: got %v", name, err)
		}
		b.remembered = rate.NewLimiter(remembered, 0)
		must(t, r.Held.Ack(ctx))
		if n := waiting(ctx, t, b); n != 0 {
			t.Errorf("%s: %d messages are left", name, n)
		}
	}
}
