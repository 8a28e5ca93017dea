package bus

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"notifier/internal/event"
)

// Invariant E3: the next worker recognizes the sent deliveries, beside records that cannot be read. Fails when load reads nothing.
func TestE3TheNextWorkerKnowsSentDeliveries(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, nil)
	ctx := testContext(t)
	for i := range 3 {
		d := testDelivery(fmt.Sprint(i), "my team", "slack.ops")
		must(t, b.Sent(ctx, &d))
	}
	none := testDelivery("none", "my team", "slack.ops")
	must(t, b.publish(ctx, streamHistory, newMsg(historySubject(&none), []byte("not JSON\n{}\n"))))
	die(b)
	b = open(t, dir, nil)
	for id, want := range map[string]bool{"0": true, "1": true, "2": true, "another": false} {
		d := testDelivery(id, "my team", "slack.ops")
		if got, err := b.WasSent(ctx, &d); got != want || err != nil {
			t.Errorf("%s was sent: %v (%v)", id, got, err)
		}
	}
}

// Fails when WasSent lacks, at the beginning of a term, the deliveries that another worker sent since this one last read the history.
func TestE3ATermBeginsWithWhatTheWorkerBeforeSent(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	mine, theirs := testDelivery("mine", "team", "slack"), testDelivery("theirs", "team", "slack")
	must(t, b.Sent(ctx, &mine))
	if known, err := b.WasSent(ctx, &mine); !known || err != nil {
		t.Fatalf("own: %v (%v)", known, err)
	}
	must(t, b.publish(ctx, streamHistory, newMsg(historySubject(&theirs), []byte(`{"id":"theirs"}`+"\n"))))
	held := make(chan event.Message[event.Delivery])
	start(t, deliverTo(b, held))
	must(t, publishDeliveries(ctx, b, []event.Delivery{mine}))
	h := receive(t, held)
	if known, err := b.WasSent(ctx, &theirs); !known || err != nil {
		t.Errorf("the other worker's: %v (%v)", known, err)
	}
	must(t, h.Ack(ctx))
}

// E2: fails when a term does not begin because the newest records were removed by hand, as those of a tenant that is gone: it waits for them.
func TestE2RecordsThatWereRemovedAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	for _, namespace := range []string{"stays", "goes"} {
		must(t, b.history.load(ctx)) // as each term does
		d := testDelivery("1", namespace, "slack")
		must(t, b.Sent(ctx, &d))
	}
	must(t, b.streams[streamHistory].Purge(ctx, jetstream.WithPurgeSubject(historyFilter("goes", anyToken))))
	must(t, b.history.load(ctx))
}

// Fails when each record is a message.
func TestRecordsOfAProviderShareAMessage(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	write, begun, let := b.history.rounds.write, make(chan int, 3), make(chan struct{})
	b.history.rounds.write = func(ctx context.Context, msgs []*nats.Msg) []outcome {
		begun <- len(msgs)
		<-let
		return write(ctx, msgs)
	}
	const sends = 50
	answers := make(chan error, sends+1)
	send := func(id, provider string) {
		d := testDelivery(id, "team", provider)
		answers <- b.Sent(ctx, &d)
	}
	go send("first", "slack")
	receive(t, begun)
	for i := range sends {
		go send(fmt.Sprint(i), fmt.Sprint("provider", i%2))
	}
	for waiting := 0; waiting < sends && ctx.Err() == nil; {
		waiting = 0
		b.history.rounds.mu.Lock()
		for _, p := range b.history.rounds.latest {
			waiting += p.callers
		}
		b.history.rounds.mu.Unlock()
	}
	close(let)
	if got := receive(t, begun); got != 2 {
		t.Errorf("%d messages for two Providers", got)
	}
	for range sends + 1 {
		must(t, receive(t, answers))
	}
	b.work.Wait() // the start has read HISTORY
	b.history.sent = recentIDs[struct{}]{most: maxSentIDs}
	b.history.read = 0
	b.history.at = b.history.at.AddDate(-1, 0, 0)
	must(t, b.history.load(ctx))
	for i := range sends {
		d := testDelivery(fmt.Sprint(i), "team", fmt.Sprint("provider", i%2))
		if known, err := b.WasSent(ctx, &d); !known || err != nil {
			t.Errorf("record %d: %v (%v)", i, known, err)
		}
	}
}

// Fails when recentIDs forgets the deliveries sent last, or grows with the number of all sent ones.
func TestSentDeliveriesAreRememberedInAFewMegabytes(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := &recentIDs[struct{}]{most: maxSentIDs}
	const all = 5 * maxSentIDs
	for i := range all {
		s.add(time.Time{}, sentID("notifier.history.team.slack", fmt.Sprint(i)), struct{}{})
	}
	for i := all - maxSentIDs/idParts*(idParts-1); i < all; i++ {
		if _, found := s.find(sentID("notifier.history.team.slack", fmt.Sprint(i))); !found {
			t.Fatalf("%d of %d is forgotten", i, all)
		}
	}
	if _, found := s.find(sentID("notifier.history.team.slack", "0")); found {
		t.Error("the first is remembered")
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 8*mib {
		t.Errorf("they take %d KiB", grown>>10)
	}
	runtime.KeepAlive(s)
}

// Fails when streams with other settings, which take atomic batches and keep one message of a subject, are refused or lose their messages.
func TestTheStreamsOfTheReleaseBeforeAreTakenOver(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, nil)
	ctx := testContext(t)
	for _, cfg := range streamConfigs(&b.opts) {
		cfg.AllowAtomicPublish = true
		if cfg.Name == streamHistory {
			cfg.MaxMsgsPerSubject, cfg.MaxMsgs = 1, 100_000
		}
		_, err := b.js.UpdateStream(ctx, cfg)
		must(t, err)
	}
	d := testDelivery("old", "team", "slack")
	must(t, b.publish(ctx, streamHistory, newMsg(historySubject(&d), []byte(`{"id":"old"}`))))
	_, err := b.PublishEvent(ctx, testRecord("old", "team", "app"))
	must(t, err)
	die(b)
	b = open(t, dir, nil)
	if known, err := b.WasSent(ctx, &d); !known || err != nil {
		t.Errorf("what was sent: %v (%v)", known, err)
	}
	if duplicate, err := b.PublishEvent(ctx, testRecord("old", "team", "app")); !duplicate || err != nil {
		t.Errorf("what was published: %v (%v)", duplicate, err)
	}
	for range 2 { // more than one message of a Provider is kept
		must(t, b.Sent(ctx, &d))
	}
	if info, err := b.streams[streamHistory].Info(ctx); err != nil || info.State.Msgs != 3 {
		t.Errorf("HISTORY has %d messages (%v)", info.State.Msgs, err)
	}
}

// Fails when the records of deliveries are written together in a message that is larger than a server takes, so that none of them is recorded.
func TestRecordsAreWrittenToAServerThatTakesSmallMessages(t *testing.T) {
	t.Parallel()
	s := startServerWith(t, t.TempDir(), server.RANDOM_PORT, func(o *server.Options) { o.MaxPayload = maxRecords / 2 })
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	b := open(t, "", func(o *Options) { o.URL = s.ClientURL() })
	var sends errgroup.Group
	for _, id := range ids(500) {
		sends.Go(func() error {
			d := testDelivery(id, "team", "slack")
			return b.Sent(testContext(t), &d)
		})
	}
	must(t, sends.Wait())
}
