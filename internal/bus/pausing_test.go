package bus

import (
	"context"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"notifier/internal/fair"
)

// E3: fails when a reader of EVENTS that pauses, as at the bound of open events, begins anew when it goes on, so that all open events are
// handed out once more.
func TestE3AReaderThatPausesGoesOnAtItsPlace(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir(), server.RANDOM_PORT)
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	b := open(t, "", func(o *Options) { o.URL = s.ClientURL() })
	seqs, resume := make(chan uint64), make(chan struct{})
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
	publishEvents(t, b, ids(100)...) // fewer than are asked for
	receive(t, seqs)
	must(t, fair.Sleep(testContext(t), 2*pullTimeout)) // some heartbeats
	more := ids(100 + feedBatch)[100:]
	publishEvents(t, b, more...)
	close(resume)
	for seq := uint64(2); seq <= 100+feedBatch; seq++ {
		if got := receive(t, seqs); got != seq {
			t.Fatalf("event %d was read for %d", got, seq)
		}
	}
}
