package bus

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"notifier/internal/event"
)

// E2, T3: a bus whose streams were deleted, as by hand or with the server's store, makes them again. Fails when Run goes on: every message is
// refused, or what needs the one bucket stands still, until somebody restarts each replica.
func TestABusWhoseStreamsAreGoneIsLostAndMakesThemAgain(t *testing.T) {
	t.Parallel()
	deleted := func(stream string) func(*testing.T, *server.Server, *Bus) *server.Server {
		return func(t *testing.T, s *server.Server, b *Bus) *server.Server {
			must(t, b.js.DeleteStream(testContext(t), stream))
			return s
		}
	}
	for name, tc := range map[string]struct {
		lose func(*testing.T, *server.Server, *Bus) *server.Server
		said string
	}{
		"a stream":            {deleted(streamTriggers), streamTriggers},
		"a stream of records": {deleted(streamWebhooks), streamWebhooks},
		"a bucket":            {deleted(bucketStream + bucketState), bucketState},
		// As another replica does that was started again first: the readers of this one would wait at places beyond the end.
		"a stream, and made again by another replica": {func(t *testing.T, s *server.Server, b *Bus) *server.Server {
			must(t, b.js.DeleteStream(testContext(t), streamEvents))
			open(t, "", func(o *Options) { o.URL = s.ClientURL() })
			return s
		}, streamEvents},
		"the store": {func(t *testing.T, s *server.Server, _ *Bus) *server.Server {
			port := s.Addr().(*net.TCPAddr).Port
			s.Shutdown()
			s.WaitForShutdown()
			return startServer(t, t.TempDir(), port)
		}, streamEvents},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, t.TempDir(), server.RANDOM_PORT)
			t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
			url := s.ClientURL()
			b := open(t, "", func(o *Options) { o.URL = url })
			ctx := testContext(t)
			must(t, b.PublishTriggers(ctx, testTrigger("team", "before", 1)))
			lost := make(chan error, 1)
			running, stop := context.WithTimeout(ctx, testTimeout)
			defer stop()
			go func() { lost <- b.Run(running) }()
			s = tc.lose(t, s, b)

			err := receive(t, lost)
			if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), tc.said) {
				t.Fatalf("Run: got %v, want ErrLost and the name of the stream", err)
			}
			if err := b.Ready(); !errors.Is(err, ErrLost) {
				t.Errorf("Ready: got %v, want ErrLost", err)
			}
			closeBus(t, b)
			b = open(t, "", func(o *Options) { o.URL = url })
			must(t, b.PublishTriggers(ctx, testTrigger("team", "after", 1)))
			must(t, b.State().Put(ctx, "key", []byte("value"), 0))
			readyWhen(t, b, "")
		})
	}
}

// Fails when each failure of each of the worker's thirty consumers is a line of the log, for as long as the cause lasts, such as a disk without
// space for dead letters, or a server that does not answer in time.
func TestAConsumerThatFailsForLongDoesNotFillTheLog(t *testing.T) {
	t.Parallel()
	for line, failure := range map[string]error{"given up": errors.New("no space left"), "taken over anew": errInterrupted} {
		log := make(logged, 1000)
		b := open(t, t.TempDir(), func(o *Options) { o.Log = slog.New(slog.NewTextHandler(log, nil)) })
		failed := make(chan int)
		for n := range 2 {
			start(t, func(ctx context.Context) error {
				b.serveOne(ctx, deliverRole(n), func(ctx context.Context, _ *consumer) error {
					select {
					case failed <- n:
					case <-ctx.Done():
					}
					return failure
				})
				return nil
			})
		}
		for again := [2]int{}; min(again[0], again[1]) < 3; {
			again[receive(t, failed)]++
		}
		lines := 0
		for len(log) > 0 {
			if strings.Contains(<-log, line) {
				lines++
			}
		}
		if lines != 1 {
			t.Errorf("%d lines: %s", lines, line)
		}
	}
}

// Fails when a stage that ends because its puller has ended hides the reason: a consumer that lost the server for a moment is then given up,
// and taken over a second later.
func TestAStageDoesNotHideWhyItsPullerEnded(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	c := &consumer{bus: b, role: triggerRole(0), crashes: b.crashes, gauge: b.progress.start(triggerRole(0))}
	s := stage[event.Trigger]{serve: func(ctx context.Context, _ int, in <-chan event.Message[event.Trigger]) error {
		select {
		case <-in:
		case <-ctx.Done():
		}
		return nil
	}}
	b.nc.Close()
	for range 10_000 {
		if err := consume(t.Context(), c, s); !errors.Is(err, nats.ErrConnectionClosed) {
			t.Fatalf("got %v", err)
		}
	}
}
