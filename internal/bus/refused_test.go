package bus

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// T3: a server that refuses the credentials for a while, as when they were rotated there first, delays a replica and does not end it. Fails
// when the client gives up a connection that was refused twice.
func TestAServerThatRefusesTheCredentialsForAWhileIsWaitedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServerFor(t, dir, server.RANDOM_PORT, "old")
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	port := s.Addr().(*net.TCPAddr).Port
	again := func(password string) {
		s.Shutdown()
		s.WaitForShutdown()
		s = startServerFor(t, dir, port, password)
	}
	log := make(logged, 1000)
	b := open(t, "", func(o *Options) {
		o.URL, o.Log = fmt.Sprintf("nats://notifier:old@127.0.0.1:%d", port), slog.New(slog.NewTextHandler(log, nil))
	})
	start(t, b.Run) // reports it if the bus is lost

	again("new")
	said := func(text string, times int) {
		for n := 0; n < times; {
			if strings.Contains(receive(t, log), text) {
				n++
			}
		}
	}
	said("authorization violation", 3)
	if err := b.Ready(); err == nil || !strings.Contains(err.Error(), "not connected") {
		t.Errorf("Ready while it is refused: %v", err)
	}
	again("old")
	said("NATS connection is back", 1)
	must(t, b.PublishTriggers(testContext(t), testTrigger("team", "after", 1)))
}
