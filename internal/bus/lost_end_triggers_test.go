package bus

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"notifier/internal/event"
)

// T4: a server that lost the end of TRIGGERS, as in a loss of power, gives the next triggers the places of the lost ones, one of which is still
// in hand. Fails when the next ones are not handed out, because the consumer is beyond them, and when the end of the one in hand removes another
// from the disk.
func TestT4TheEndOfALostTriggerIsNotThatOfTheNextInItsPlace(t *testing.T) {
	t.Parallel()
	s, ctx := newRelapsing(t), testContext(t)
	b := open(t, "", func(o *Options) { o.URL = s.server.ClientURL() })
	held := make(chan event.Message[event.Trigger], 10)
	start(t, triggerTo(b, held))
	publish := func(key string) event.Message[event.Trigger] {
		t.Helper()
		persist(t, func(ctx context.Context) error { return b.PublishTriggers(ctx, testTrigger("team", key, 1)) })
		for {
			if h := receive(t, held); h.Value.Key == key {
				return h
			}
		}
	}
	must(t, publish("kept").Ack(ctx))
	s.save()
	lost := publish("lost")
	s.restart(func(streams string) error { // the state of the consumer is kept
		of := filepath.Join(streamTriggers, "msgs")
		stored := filepath.Join(streams, of)
		return errors.Join(os.RemoveAll(stored), os.CopyFS(stored, os.DirFS(filepath.Join(s.saved, of))))
	})
	later := publish("new")
	if later.Seq != lost.Seq {
		t.Fatalf("the new trigger has the place %d, the lost one had %d", later.Seq, lost.Seq)
	}
	stored := func() uint64 {
		info, err := b.streams[streamTriggers].Info(ctx)
		must(t, err)
		return info.State.Msgs
	}
	must(t, lost.Ack(ctx))
	if n := stored(); n != 1 {
		t.Errorf("%d triggers are on disk, want the new one", n)
	}
	must(t, later.Ack(ctx))
	if n := stored(); n != 0 {
		t.Errorf("%d triggers are on disk after the end of the new one", n)
	}
}
