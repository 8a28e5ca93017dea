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

	"notifier/internal/event"
	"notifier/internal/fair"
)

// lossy is a server that can lose the end of EVENTS, with a replica that publishes and one that reads.
type lossy struct {
	t              *testing.T
	server         *server.Server
	network        *link // of the reader
	writer, reader *Bus
	events         *heldEvents
	firstIsOpen    bool
}

func newLossy(t *testing.T, firstIsOpen bool) *lossy {
	dir := t.TempDir()
	l := &lossy{t: t, server: startServer(t, dir, server.RANDOM_PORT), events: newHeldEvents(), firstIsOpen: firstIsOpen}
	t.Cleanup(func() { l.server.Shutdown(); l.server.WaitForShutdown() })
	l.network = newLink(t, l.server.ClientURL())
	l.writer = open(t, "", func(o *Options) { o.URL = l.server.ClientURL() })
	l.reader = open(t, "", func(o *Options) { o.URL = l.network.URL })
	start(t, l.events.read(l.reader))
	return l
}

// publish publishes so many events.
func (l *lossy) publish(prefix string, count int) {
	l.t.Helper()
	ctx := testContext(l.t)
	for i := range count {
		r := testRecord(fmt.Sprint(prefix, i), "team", "app")
		for _, err := l.writer.PublishEvent(ctx, r); err != nil; _, err = l.writer.PublishEvent(ctx, r) {
			must(l.t, ctx.Err())
		}
	}
}

// handed waits until they are handed out, in their order, beside others that come again.
func (l *lossy) handed(prefix string, count int) {
	l.t.Helper()
	for i := 0; i < count; {
		h := receive(l.t, l.events.handed)
		if h.Value.ID == fmt.Sprint(prefix, i) {
			i++
		} else if !h.Value.Recheck {
			l.t.Errorf("got %s", describe(h))
		}
		if h.Seq > 1 || !l.firstIsOpen {
			must(l.t, h.Ack(testContext(l.t)))
		}
	}
}

// recorded waits until so many events, or all but the first, are recorded as done.
func (l *lossy) recorded(events int) {
	l.t.Helper()
	for deadline := time.Now().Add(testTimeout); ; {
		c := adopted(l.t, l.writer)
		if n := int(c.floor) + len(c.done); n == events || l.firstIsOpen && n == events-1 {
			return
		}
		if time.Now().After(deadline) {
			l.t.Fatal("not recorded")
		}
	}
}

// restart changes the files of EVENTS while the server is down.
func (l *lossy) restart(change func(stored string) error) {
	l.t.Helper()
	dir, port := l.server.StoreDir(), l.server.Addr().(*net.TCPAddr).Port
	l.server.Shutdown()
	l.server.WaitForShutdown()
	must(l.t, change(filepath.Join(dir, "$G", "streams", streamEvents)))
	l.server = startServer(l.t, filepath.Dir(dir), port)
}

// E2: a server that lost the end of EVENTS, as in a loss of power, gives the next events the places of the lost ones. Fails when these events
// count as done, or are not read, because the cursor is beyond them: also if the server is back within the term of the worker, or if there
// are more of them than were lost before a worker reads them.
func TestE2EventsInThePlacesOfLostOnesAreHandedOut(t *testing.T) {
	t.Parallel()
	const lost = 9
	for name, test := range map[string]struct {
		away func(l *lossy)
		new  int
	}{
		"after the term": {func(l *lossy) {
			for l.reader.lease.Held() {
				_ = fair.Sleep(l.t.Context(), 10*time.Millisecond)
			}
		}, 3},
		"within the term":   {func(*lossy) {}, 3},
		"as many as before": {func(l *lossy) { l.network.down.Store(true) }, 2 * lost},
	} {
		for _, firstIsOpen := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", the first is open: ", firstIsOpen), func(t *testing.T) {
				t.Parallel()
				l, saved := newLossy(t, firstIsOpen), filepath.Join(t.TempDir(), streamEvents)
				followed := make(chan string, 100)
				start(t, following(l.writer, time.Now(), func(r *event.Record) { followed <- r.ID }, nil))
				l.publish("kept", 3)
				l.handed("kept", 3)
				l.restart(func(stored string) error { return os.CopyFS(saved, os.DirFS(stored)) })
				l.publish("lost", lost)
				l.handed("lost", lost)
				l.recorded(3 + lost)
				l.restart(func(stored string) error {
					test.away(l)
					return errors.Join(os.RemoveAll(stored), os.CopyFS(stored, os.DirFS(saved)))
				})
				l.publish("new", test.new)
				l.network.down.Store(false)
				l.handed("new", test.new)
				l.recorded(3 + test.new)
				for id := ""; id != fmt.Sprint("new", test.new-1); {
					id = receive(t, followed)
				}
			})
		}
	}
}
