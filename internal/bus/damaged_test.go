package bus

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"notifier/internal/event"
)

// E2, T4: after a loss of power, which leaves anything in the files that are not synced, all that waits is handed out. Fails when the server
// keeps the state of a consumer that it cannot read: it refuses to make that consumer, and what waits in its shard stands still.
func TestE2AConsumerWhoseStateIsDamagedIsMadeAnew(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(state []byte) []byte{
		"half":   func(state []byte) []byte { return state[:len(state)/2] },
		"zeroed": func(state []byte) []byte { return make([]byte, len(state)) },
		"other":  func(state []byte) []byte { return bytes.Repeat([]byte{'x'}, len(state)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, ctx := t.TempDir(), testContext(t)
			triggers, deliveries := make(chan event.Message[event.Trigger]), make(chan event.Message[event.Delivery])
			b := open(t, dir, nil)
			stopTriggers, stopDeliveries := start(t, triggerTo(b, triggers)), start(t, deliverTo(b, deliveries))
			must(t, b.PublishTriggers(ctx, testTrigger("team", "key", 1)))
			must(t, publishDeliveries(ctx, b, []event.Delivery{testDelivery("d", "team", "chat")}))
			receive(t, triggers)
			receive(t, deliveries)
			stopTriggers()
			stopDeliveries()
			closeBus(t, b)

			states, err := filepath.Glob(filepath.Join(dir, serverDir, "$G/streams/*/obs/*/o.dat"))
			must(t, err)
			if len(states) == 0 {
				t.Fatal("no consumer has a state")
			}
			for _, path := range states {
				state, err := os.ReadFile(path)
				must(t, err)
				must(t, os.WriteFile(path, damage(state), 0o600))
			}
			b = open(t, dir, nil)
			start(t, triggerTo(b, triggers))
			start(t, deliverTo(b, deliveries))
			for range 2 {
				select {
				case m := <-triggers:
					must(t, m.Ack(ctx))
				case m := <-deliveries:
					must(t, m.Ack(ctx))
				case <-time.After(testTimeout):
					t.Fatal("nothing is handed out")
				}
			}
		})
	}
}

// E2, T4: the disk does not read a block when the process begins after a crash, as it has a bad sector for a while. Fails when the server takes
// the stream for one that it could not make, and removes all of it.
func TestE2AStreamWithABlockThatIsNotReadIsKept(t *testing.T) {
	t.Parallel()
	dir, ctx := t.TempDir(), testContext(t)
	b := open(t, dir, nil)
	publishEvents(t, b, "a")
	must(t, b.PublishTriggers(ctx, testTrigger("team", "key", 1)))
	must(t, publishDeliveries(ctx, b, []event.Delivery{testDelivery("d", "team", "chat")}))
	closeBus(t, b)

	var unread []string
	for _, stream := range []string{streamEvents, streamTriggers, streamDeliveries} {
		msgs := filepath.Join(dir, serverDir, "$G/streams", stream, "msgs")
		must(t, os.Remove(filepath.Join(msgs, "index.db"))) // it is not written in a crash
		unread = append(unread, filepath.Join(msgs, "99.blk"))
		must(t, os.Mkdir(filepath.Join(msgs, "99.blk"), 0o700)) // it can be opened, and not read
	}
	if b, err := Open(ctx, testOptions(dir, nil)); err == nil {
		closeBus(t, b)
		t.Error("the process begins without what was accepted")
	}
	for _, block := range unread {
		must(t, os.RemoveAll(block))
	}
	b = open(t, dir, nil)
	events, triggers, deliveries := make(chan *event.Record), make(chan event.Message[event.Trigger]), make(chan event.Message[event.Delivery])
	start(t, routeTo(b, events))
	start(t, triggerTo(b, triggers))
	start(t, deliverTo(b, deliveries))
	receive(t, events)
	receive(t, triggers)
	receive(t, deliveries)
}
