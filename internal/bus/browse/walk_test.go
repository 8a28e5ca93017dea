package browse

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// newServer returns a connection to a real server.
func newServer(t testing.TB, jetStream bool) *nats.Conn {
	t.Helper()
	s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, JetStream: jetStream, StoreDir: t.TempDir(), MaxPayload: 8 << 20})
	must(t, err)
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	nc, err := nats.Connect("", nats.InProcessServer(s))
	must(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// newStream returns a stream of a real server, with messages of the given lengths on a subject each.
func newStream(t *testing.T, direct bool, subjects []string, lengths []int) Stream {
	t.Helper()
	nc := newServer(t, true)
	js, err := jetstream.New(nc)
	must(t, err)
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "S", Subjects: []string{"s.>"}, Storage: jetstream.MemoryStorage, AllowDirect: direct,
	})
	must(t, err)
	for i, n := range lengths {
		_, err := js.Publish(t.Context(), subjects[i%len(subjects)], []byte(strings.Repeat("x", n)))
		must(t, err)
	}
	return Stream{stream, nc}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// T6: fails when a walk over large messages keeps as many of them in memory as of small ones, or passes some over.
func TestT6AWalkOverLargeMessagesKeepsFewInMemory(t *testing.T) {
	const large, count = 2 << 20, 16
	lengths := make([]int, count)
	for i := range lengths {
		lengths[i] = large
	}
	for name, subjects := range map[string][]string{"its own": {"s.a"}, "its own and others'": {"s.a", "s.b"}} {
		for _, direct := range []bool{true, false} {
			w := Walker{
				Stream: newStream(t, direct, subjects, lengths), Filter: "s.a", Match: func(subject string) bool { return subject == "s.a" },
				Budget: &Budget{Messages: math.MaxInt, Bytes: math.MaxInt, Requests: math.MaxInt, Until: time.Now().Add(time.Hour)},
			}
			most, seen := 0, 0
			for below := uint64(math.MaxUint64); ; seen++ {
				m, err := w.Prev(t.Context())
				if errors.Is(err, jetstream.ErrMsgNotFound) {
					break
				}
				must(t, err)
				if m.Sequence >= below || len(m.Data) != large {
					t.Fatalf("%s: after message %d: %d", name, below, m.Sequence)
				}
				below = m.Sequence
				kept := len(m.Data)
				for _, m := range w.found {
					kept += len(m.Data)
				}
				most = max(most, kept)
			}
			if want := count / len(subjects); seen != want {
				t.Errorf("%s, direct %t: %d messages, want %d", name, direct, seen, want)
			}
			if most > 12<<20 {
				t.Errorf("%s, direct %t: %d MiB in memory at once", name, direct, most>>20)
			}
			if read := math.MaxInt - w.Budget.Bytes; read > 8*count*large {
				t.Errorf("%s, direct %t: %d MiB read for %d", name, direct, read>>20, count*large>>20)
			}
		}
	}
}
