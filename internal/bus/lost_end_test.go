package bus

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// E2: a server that lost the end of EVENTS, as in a loss of power, gives the next events the places of the lost ones. Fails when these events
// count as done, or are not read, because the cursor is beyond them, also if they are there before a worker is.
func TestE2EventsInThePlacesOfLostOnesAreHandedOut(t *testing.T) {
	t.Parallel()
	for name, firstIsOpen := range map[string]bool{"all are done": false, "the first is open": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, saved := t.TempDir(), filepath.Join(t.TempDir(), streamEvents)
			stored := filepath.Join(dir, "jetstream", "$G", "streams", streamEvents)
			s := startServer(t, dir, server.RANDOM_PORT)
			t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
			port := s.Addr().(*net.TCPAddr).Port
			restart := func(meanwhile func() error) {
				s.Shutdown()
				s.WaitForShutdown()
				must(t, meanwhile())
				s = startServer(t, dir, port)
			}
			b := open(t, "", func(o *Options) { o.URL = s.ClientURL() })
			ctx, events := testContext(t), newHeldEvents()
			start(t, events.read(b))
			handed := func(prefix string, count int) {
				t.Helper()
				for i := range count {
					r := testRecord(fmt.Sprint(prefix, i), "team", "app")
					for _, err := b.PublishEvent(ctx, r); err != nil; _, err = b.PublishEvent(ctx, r) {
						must(t, ctx.Err())
					}
				}
				for i := 0; i < count; {
					h := receive(t, events.handed)
					if h.Value.ID == fmt.Sprint(prefix, i) {
						i++
					} else if !h.Value.Recheck {
						t.Errorf("got %s", describe(h))
					}
					if h.Seq > 1 || !firstIsOpen {
						must(t, h.Ack(ctx))
					}
				}
			}
			recorded := func(events int) {
				t.Helper()
				for deadline := time.Now().Add(testTimeout); ; {
					c := adopted(t, b)
					if n := int(c.floor) + len(c.done); n == events || firstIsOpen && n == events-1 {
						return
					}
					if time.Now().After(deadline) {
						t.Fatal("not recorded")
					}
				}
			}
			handed("kept", 3)
			restart(func() error { return os.CopyFS(saved, os.DirFS(stored)) })
			handed("lost", 9)
			recorded(12)
			restart(func() error {
				look := time.NewTicker(10 * time.Millisecond)
				defer look.Stop()
				for b.Worker() { // a machine is not back before the end of the term
					<-look.C
				}
				return errors.Join(os.RemoveAll(stored), os.CopyFS(stored, os.DirFS(saved)))
			})
			handed("new", 3)
			recorded(6)
		})
	}
}
