package bus

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"notifier/internal/fair"
)

// pausing opens a bus of a remote server, and reads EVENTS. The reader pauses after the first event, until resume is closed.
func pausing(t *testing.T) (b *Bus, seqs chan uint64, resume chan struct{}) {
	s := startServer(t, t.TempDir(), server.RANDOM_PORT)
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	b = open(t, "", func(o *Options) { o.URL = s.ClientURL() })
	seqs, resume = make(chan uint64), make(chan struct{})
	start(t, func(ctx context.Context) error {
		first := true
		return (&feed{bus: b, next: 1}).run(ctx, func(l logEntry) error {
			if seqs <- l.seq; first {
				first = false
				<-resume
			}
			return nil
		})
	})
	return b, seqs, resume
}

// E3: fails when a reader of EVENTS that pauses, as at the bound of open events, begins anew when it goes on, so that all open events are
// handed out once more.
func TestE3AReaderThatPausesGoesOnAtItsPlace(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{
		2 * pullTimeout,  // some heartbeats
		50 * time.Second, // the request ends after half a minute
	} {
		t.Run(pause.String(), func(t *testing.T) { t.Parallel(); goesOnAfter(t, pause) })
	}
}

func goesOnAfter(t *testing.T, pause time.Duration) {
	b, seqs, resume := pausing(t)
	publishEvents(t, b, ids(100)...) // fewer than are asked for
	receive(t, seqs)
	must(t, fair.Sleep(t.Context(), pause))
	more := ids(100 + feedBatch)[100:]
	publishEvents(t, b, more...)
	close(resume)
	for seq := uint64(2); seq <= 100+feedBatch; seq++ {
		if got := receive(t, seqs); got != seq {
			t.Fatalf("event %d was read for %d", got, seq)
		}
	}
}

// E2: fails when a reader of EVENTS that pauses misses the last events, for which the client had no room, until another one is published.
func TestE2AReaderThatPausesReadsTheLastEvents(t *testing.T) {
	t.Parallel()
	b, seqs, resume := pausing(t)
	publishEvents(t, b, "first")
	receive(t, seqs)
	must(t, fair.Sleep(testContext(t), 3*pullTimeout)) // some heartbeats
	publishEvents(t, b, ids(feedBatch-1)...)           // the rest of what is asked for
	close(resume)
	for seq := uint64(2); seq <= feedBatch; seq++ {
		if got := receive(t, seqs); got != seq {
			t.Fatalf("event %d was read for %d", got, seq)
		}
	}
}
