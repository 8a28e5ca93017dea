package bus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event/view"
)

// recorded returns the results that WEBHOOKS has of a Receiver, message by message.
func recorded(t *testing.T, b *Bus, namespace, receiver string) (messages [][]view.Webhook) {
	t.Helper()
	ctx := testContext(t)
	info, err := b.streams[streamWebhooks].Info(ctx)
	must(t, err)
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		raw, err := b.streams[streamWebhooks].GetMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && raw.Subject != webhookSubject(namespace, receiver) {
			continue
		}
		must(t, err)
		var message []view.Webhook
		for line := range bytes.Lines(raw.Data) {
			var w view.Webhook
			must(t, json.Unmarshal(line, &w))
			message = append(message, w)
		}
		messages = append(messages, message)
	}
	return messages
}

func testWebhook(receiver, id string) view.Webhook {
	return view.Webhook{
		Namespace: "team.a", Receiver: receiver, Time: time.Unix(1_700_000_000, 0).UTC(), ID: id, Result: "accepted",
		Targets: []string{"GitRepository/app", "Kustomization with a=<1>"}, Count: 1,
	}
}

// Fails when a result is not stored as it was, under its Receiver's subject, or a call makes several messages or an empty one.
func TestResultsOfWebhooksAreKeptByReceiver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir, nil)
	ctx := testContext(t)
	first := []view.Webhook{testWebhook("my app", "1"), {Namespace: "team.a", Receiver: "my app", Result: "unauthentic", Reason: "signature mismatch", Count: 7}}
	second := []view.Webhook{testWebhook("my app", "2")}
	must(t, b.RecordWebhooks(ctx, "team.a", "my app", first))
	must(t, b.RecordWebhooks(ctx, "team.a", "other", []view.Webhook{testWebhook("other", "3")}))
	must(t, b.RecordWebhooks(ctx, "team.a", "my app", nil))
	must(t, b.RecordWebhooks(ctx, "team.a", "my app", second))
	closeBus(t, b)
	b = open(t, dir, nil)
	if diff := cmp.Diff([][]view.Webhook{first, second}, recorded(t, b, "team.a", "my app")); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	if got := len(recorded(t, b, "team.a", "other")); got != 1 {
		t.Errorf("of the other Receiver %d messages are kept, want 1", got)
	}
}

// T6: fails without the bound for one Receiver, when it is for all of them together, and when the newest are discarded.
func TestT6AReceiversResultsPushOutNoneOfOthers(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	must(t, b.RecordWebhooks(ctx, "team.a", "quiet", []view.Webhook{testWebhook("quiet", "first")}))
	for i := range webhooksPerReceiver + 10 {
		must(t, b.RecordWebhooks(ctx, "team.a", "busy", []view.Webhook{testWebhook("busy", fmt.Sprint(i))}))
	}
	busy := recorded(t, b, "team.a", "busy")
	if len(busy) != webhooksPerReceiver || busy[0][0].ID != "10" {
		t.Errorf("%d messages are kept of the busy one, want %d from 10 on", len(busy), webhooksPerReceiver)
	}
	if got := len(recorded(t, b, "team.a", "quiet")); got != 1 {
		t.Errorf("of the quiet one %d messages are kept, want 1", got)
	}
}

// Fails when results are synced: they are not worth the cost of a sync.
func TestResultsOfWebhooksAreNotSynced(t *testing.T) {
	t.Parallel()
	var syncs atomic.Int64
	b := open(t, t.TempDir(), func(o *Options) {
		o.fsync = func(f *os.File) error { syncs.Add(1); return f.Sync() }
	})
	before := syncs.Load()
	for i := range 20 {
		must(t, b.RecordWebhooks(testContext(t), "team.a", "app", []view.Webhook{testWebhook("app", fmt.Sprint(i))}))
	}
	if got := syncs.Load() - before; got != 0 {
		t.Errorf("20 results took %d syncs", got)
	}
}

// Fails when the age, or the discarding of the oldest, is another, so that recording fails when the stream is full.
func TestWebhooksAreKeptForADayAndTheOldestGo(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), func(o *Options) { o.Budgets.Webhooks = mib })
	ctx := testContext(t)
	info, err := b.streams[streamWebhooks].Info(ctx)
	must(t, err)
	if got := info.Config.MaxAge; got != 24*time.Hour {
		t.Errorf("kept for %s", got)
	}
	large := testWebhook("", "")
	large.Reason = strings.Repeat("x", 16<<10)
	for i := range 100 {
		must(t, b.RecordWebhooks(ctx, fmt.Sprint("team-", i), "app", []view.Webhook{large}))
	}
	if got := len(recorded(t, b, "team-99", "app")); got != 1 {
		t.Errorf("of the newest %d messages are kept, want 1", got)
	}
}
