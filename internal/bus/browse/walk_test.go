package browse

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event/view"
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

// watched is a stream that calls a function before it reads a message.
type watched struct {
	jetstream.Stream
	before func(ctx context.Context)
}

func (w watched) GetMsg(ctx context.Context, seq uint64, opts ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	w.before(ctx)
	return w.Stream.GetMsg(ctx, seq, opts...)
}

// denseBelowRare returns a stream with 300 messages of s.a below 400 of s.b, and one of s.a on top. A walk down s.a then has a window of which it
// reads more than a hundred messages one by one.
func denseBelowRare(t *testing.T) Stream {
	t.Helper()
	var subjects []string
	for range 300 {
		subjects = append(subjects, "s.a")
	}
	for range 400 {
		subjects = append(subjects, "s.b")
	}
	subjects = append(subjects, "s.a")
	return newStream(t, true, subjects, make([]int, len(subjects)))
}

// walkDown returns a walker down s.a from below, with an hour.
func walkDown(s Stream, below uint64) *Walker {
	return &Walker{
		Stream: s, Filter: "s.a", Match: func(subject string) bool { return subject == "s.a" }, Below: below,
		Budget: &Budget{Messages: math.MaxInt, Bytes: math.MaxInt, Requests: math.MaxInt, Until: time.Now().Add(time.Hour)},
	}
}

// Fails when a walk reads a window to its end though its time is over: where each request takes 20 ms, a page then takes longer than its reader
// waits, each time anew. Also fails when another walk does not continue where it ended.
func TestAWalkEndsWithItsTimeWithinAWindow(t *testing.T) {
	plain := denseBelowRare(t)
	slow, requests := plain, 0
	var w *Walker
	slow.Stream = watched{plain.Stream, func(context.Context) {
		if requests++; requests == 10 {
			w.Budget.Until = time.Now()
		}
	}}
	w = walkDown(slow, 0)
	seen := map[uint64]bool{}
	for {
		m, err := w.Prev(t.Context())
		if errors.Is(err, ErrSpent) {
			break
		}
		must(t, err)
		seen[m.Sequence] = true
	}
	if requests != 10 {
		t.Errorf("the time was over at request 10 and there were %d", requests)
	}
	w = walkDown(plain, w.Below)
	for {
		m, err := w.Prev(t.Context())
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			break
		}
		must(t, err)
		if seen[m.Sequence] {
			t.Errorf("message %d was returned twice", m.Sequence)
		}
		seen[m.Sequence] = true
	}
	if len(seen) != 301 {
		t.Errorf("%d messages of 301", len(seen))
	}
}

// Fails when a page is refused, with all that was read for it, because the server does not answer one more request in time.
func TestAPageHasWhatWasReadBeforeTheServerStoodStill(t *testing.T) {
	plain := denseBelowRare(t)
	list := func(stream Stream) *List[uint64] {
		return &List[uint64]{
			Name: "a", Time: func(seq uint64) time.Time { return time.Unix(int64(seq), 0) }, Take: func(uint64) bool { return true },
			Sources: []*Source[uint64]{{
				Walker: Walker{Stream: stream, Filter: "s.a", Match: func(subject string) bool { return subject == "s.a" }},
				Decode: func(m *jetstream.RawStreamMsg) []uint64 { return []uint64{m.Sequence} },
			}},
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	still, requests := plain, 0
	still.Stream = watched{plain.Stream, func(ctx context.Context) {
		if requests++; requests == 10 {
			<-ctx.Done()
		}
	}}
	page, err := list(still).Page(ctx, view.Query{Limit: view.MaxLimit})
	must(t, err)
	if len(page.Items) != 1 || page.Items[0] != 701 || page.Next == "" {
		t.Errorf("got %d items and cursor %q", len(page.Items), page.Next)
	}
	rest, err := list(plain).Page(t.Context(), view.Query{Limit: view.MaxLimit, Cursor: page.Next})
	must(t, err)
	if len(rest.Items) != min(300, view.MaxLimit) || rest.Items[0] != 300 {
		t.Errorf("then %d items", len(rest.Items))
	}

	requests = 9
	ctx, cancel = context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if page, err := list(still).Page(ctx, view.Query{Cursor: page.Next}); !errors.Is(err, context.DeadlineExceeded) || len(page.Items) > 0 {
		t.Errorf("of a page with nothing read: %d items, %v", len(page.Items), err)
	}
}
