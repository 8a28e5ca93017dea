package bus

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event"
)

// A server that is out of space answers every read and stores nothing: no webhook is accepted, and no replica can be the worker. Fails when
// Ready asks for answers alone.
func TestAServerThatStoresNothingIsNotReady(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir(), server.RANDOM_PORT)
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	join := func(name string) *Bus {
		b := open(t, "", func(o *Options) { o.URL, o.ReplicaID = s.ClientURL(), name })
		start(t, b.Run)
		start(t, triggerTo(b, make(chan event.Message[event.Trigger])))
		return b
	}
	one := join("one")
	for !one.lease.Held() {
		readyWhen(t, one, "")
	}
	two := join("two") // waits for the lease
	readyWhen(t, two, "")

	limit := func(bytes int64) {
		must(t, s.GlobalAccount().UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": {
			MaxStore: bytes, MaxMemory: -1, MaxStreams: -1, MaxConsumers: -1, MaxAckPending: -1, MemoryMaxStreamBytes: -1, StoreMaxStreamBytes: -1,
		}}))
	}
	limit(1)
	for _, b := range []*Bus{one, two} {
		readyWhen(t, b, "has not been written")
	}
	limit(-1)
	for _, b := range []*Bus{one, two} {
		readyWhen(t, b, "")
	}
}

// readyWhen waits until Ready returns an error with the text, or none if it is empty.
func readyWhen(t *testing.T, b *Bus, text string) {
	t.Helper()
	ctx := testContext(t)
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		err := b.Ready()
		if text == "" && err == nil || text != "" && err != nil && strings.Contains(err.Error(), text) {
			return
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			t.Fatalf("Ready: %v, want %q", err, text)
		}
	}
}

// noSpace is a bucket that stores nothing.
type noSpace struct{ jetstream.KeyValue }

func (noSpace) Update(context.Context, string, []byte, uint64) (uint64, error) {
	return 0, errors.New("no space")
}

// Fails when nothing says why events that are done count as unrouted, and come again after a crash, or when each try is a line of the log.
func TestAPlaceThatCannotBeRecordedIsALineInTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := &cursor{
			next: 1, done: map[uint64]struct{}{}, changed: make(chan struct{}, 1), durable: func(context.Context, uint64) error { return nil },
			entry: workerEntry[cursorRecord]{bucket: noSpace{}},
		}
		must(t, c.hand(1).Ack(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), 29*time.Second)
		defer cancel()
		if c.keep(ctx, t.Context(), newProgress().start(routeRole()), slog.New(slog.NewTextHandler(&log, nil))) == nil {
			t.Error("recorded")
		}
		if n := strings.Count(log.String(), "no space"); n != 3 {
			t.Errorf("%d lines in 29 s, want 3", n)
		}
	})
}
