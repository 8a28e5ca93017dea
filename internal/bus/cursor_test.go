package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event"
)

// heldEvents collects the events that a reader of EVENTS is handed and leaves unacknowledged.
type heldEvents struct {
	handed chan event.Message[*event.Record]
	spill  chan uint64
	caught chan bool
}

func newHeldEvents() *heldEvents {
	return &heldEvents{
		handed: make(chan event.Message[*event.Record], 2*maxOpen), spill: make(chan uint64, 100), caught: make(chan bool, 100),
	}
}

func (e *heldEvents) handler() event.Handler {
	return event.Handler{
		Heavy: light, Full: never, Spill: func(_ context.Context, seq uint64) { e.spill <- seq },
		Begin: func(func(string) bool) { e.caught <- false }, CaughtUp: func(context.Context) { e.caught <- true },
		Handle: func(_ context.Context, batch []event.Message[*event.Record]) error {
			for _, h := range batch {
				e.handed <- h
			}
			return nil
		},
	}
}

func (e *heldEvents) read(b *Bus) func(ctx context.Context) error {
	return func(ctx context.Context) error { return b.Events(ctx, e.handler()) }
}

// drop returns h and all events that are handed out until the test ends: a dead process holds none, and the end of a term waits for those
// that are held.
func (e *heldEvents) drop(t *testing.T, h event.Message[*event.Record]) {
	start(t, func(ctx context.Context) error {
		for ctx.Err() == nil {
			_ = h.Nak()
			select {
			case h = <-e.handed:
			case <-ctx.Done():
			}
		}
		return nil
	})
}

func describe(h event.Message[*event.Record]) string {
	return fmt.Sprint(h.Value.ID, " ", h.Value.Seq, " ", h.Value.Recheck)
}

// E2 and E3: fails when the cursor passes an event that is not done, or is lost, or when an event that is not done is handed out again
// without a recheck.
func TestE2UnfinishedEventsComeAgainAfterACrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir, nil)
	events := newHeldEvents()
	stop := start(t, events.read(b))
	for !receive(t, events.caught) {
		continue
	}
	publishEvents(t, b, ids(6)...)
	var held []event.Message[*event.Record]
	for i := range 6 {
		h := receive(t, events.handed)
		if want := fmt.Sprintf("%04d %d false", i, i+1); describe(h) != want {
			t.Errorf("got %s, want %s", describe(h), want)
		}
		held = append(held, h)
	}
	for _, i := range []int{3, 5, 0, 1} {
		must(t, held[i].Ack(testContext(t)))
	}
	for saved := uint64(0); saved < 2; {
		c, err := b.loadCursor(testContext(t), routeRole())
		must(t, err)
		saved = c.floor
	}
	die(b)
	stop()
	b = open(t, dir, nil)
	events = newHeldEvents()
	start(t, events.read(b))
	for !receive(t, events.caught) {
		continue
	}
	publishEvents(t, b, "new")
	var got []string
	for range 3 {
		got = append(got, describe(receive(t, events.handed)))
	}
	if diff := cmp.Diff([]string{"0002 3 true", "0004 5 true", "new 7 false"}, got); diff != "" {
		t.Error(diff)
	}
}

// E5: one destination that hangs keeps its events open, and those of others are routed. Fails when Spill is not called before maxOpen is
// reached, when more than maxOpen are handed out, or when none is handed out once the oldest are done.
func TestE5ManyOpenEventsAreToBeDoneBeforeTheyHoldUpOthers(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	events := newHeldEvents()
	start(t, events.read(b))
	var records []*event.Record
	for i, id := range ids(maxOpen + 100) {
		records = append(records, testRecord(id, "team", fmt.Sprint("app", i%100))) // those of one object are written one after the other
	}
	publishRecords(t, b, records...)
	publishEvents(t, b, "last")
	var open []event.Message[*event.Record]
	for range maxOpen {
		open = append(open, receive(t, events.handed))
	}
	if upTo := receive(t, events.spill); upTo != maxOpen/2 {
		t.Errorf("asked for events up to %d", upTo)
	}
	if n := len(events.handed); n > 0 {
		t.Errorf("%d more than %d are open", n, maxOpen)
	}
	for _, h := range open[:maxOpen/2] {
		must(t, h.Ack(testContext(t)))
	}
	for range 101 {
		receive(t, events.handed)
	}
}

// E4: fails when a returned event is handed out alone, behind younger ones, or never.
func TestE4AnEventThatIsReturnedComesAgainWithAllThatIsYounger(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	events := newHeldEvents()
	start(t, events.read(b))
	publishEvents(t, b, ids(3)...)
	for i := range 3 {
		h := receive(t, events.handed)
		switch i {
		case 0:
			must(t, h.Ack(testContext(t)))
		case 1:
			must(t, h.Nak())
		}
	}
	var got []string
	for range 2 {
		h := receive(t, events.handed)
		got = append(got, describe(h))
		must(t, h.Ack(testContext(t)))
	}
	if diff := cmp.Diff([]string{"0001 2 true", "0002 3 true"}, got); diff != "" {
		t.Error(diff)
	}
	for range 2 { // terms
		for receive(t, events.caught) {
			continue
		}
	}
	if !receive(t, events.caught) {
		t.Error("a third term began")
	}
}

// Records that this process published are read from memory, in order; other messages of the stream are read from there. Fails when a gap is
// skipped, or read as often as there are publishers.
func TestAGapInWhatThisProcessPublishedIsReadFromTheStream(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	events := newHeldEvents()
	start(t, events.read(b))
	var publishers sync.WaitGroup
	for p := range 8 {
		publishers.Go(func() {
			for i := range 20 {
				if i%10 == 5 {
					publishRecords(t, b, testRecord(fmt.Sprint("unknown-", p, "-", i), "team", fmt.Sprint("app", p)))
				}
				publishEvents(t, b, fmt.Sprint("known-", p, "-", i))
			}
		})
	}
	publishers.Wait()
	for want := uint64(1); want <= 8*22; want++ {
		h := receive(t, events.handed)
		if h.Seq != want || h.Value.Seq != want {
			t.Fatalf("%s has sequence %d, want %d", h.Value.ID, h.Seq, want)
		}
		must(t, h.Ack(testContext(t)))
	}
}

// Records that memory no longer has, and all that were published before the reader began, are read from the stream. Fails when the oldest
// records keep the newest out of memory: then one reader that is late has all others read the stream.
func TestEventsBeyondMemoryAreReadFromTheStream(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	for i := range 20 {
		r := testRecord(fmt.Sprint(i), "team", "app")
		r.Event.Message = strings.Repeat("x", 1<<20)
		_, err := b.PublishEvent(testContext(t), r)
		must(t, err)
	}
	if r := b.recent; r.records[1] != nil || r.records[20] == nil || r.last != 20 || r.bytes > recentBytes {
		t.Fatalf("memory has the first: %t, the last: %t, %d bytes, and knows of %d", r.records[1] != nil, r.records[20] != nil, r.bytes, r.last)
	}
	events := newHeldEvents()
	start(t, events.read(b))
	for i := 0; i < 20; i++ {
		h := receive(t, events.handed)
		if h.Value.ID == "0" { // none is done: a reader that begins anew begins here
			i = 0
		}
		if h.Value.ID != fmt.Sprint(i) || len(h.Value.Event.Message) != 1<<20 {
			t.Fatalf("number %d is %s", i, h.Value.ID)
		}
	}
}

// E3: fails when the cursor of a replaced reader overwrites that of its successor.
func TestE3AReaderThatWasReplacedDoesNotMoveTheCursor(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	old, err := b.loadCursor(ctx, routeRole())
	must(t, err)
	next, err := b.loadCursor(ctx, routeRole())
	must(t, err)
	must(t, next.hand(1).Ack(ctx))
	must(t, next.hand(2).Ack(ctx))
	must(t, next.save(ctx))
	must(t, old.hand(1).Ack(ctx))
	if err := old.save(ctx); !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		t.Errorf("got %v", err)
	}
	again, err := b.loadCursor(ctx, routeRole())
	must(t, err)
	if again.floor != 2 {
		t.Errorf("the cursor is at %d", again.floor)
	}
}

// Fails when publishers outrun the reader, so that it must read the stream for good, or wait long for a reader that makes no progress.
func TestPublishersWaitForAReaderThatIsFarBehind(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	waits := func() time.Duration {
		began := time.Now()
		b.recent.await(ctx)
		return time.Since(began)
	}
	b.recent.note(behindMost + 10)
	if waited := waits(); waited >= behindWait {
		t.Errorf("waited %s for nobody", waited)
	}
	reader, stop := b.recent.watch(1, true)
	if waited := waits(); waited < behindWait {
		t.Errorf("waited %s for a reader that stands still", waited)
	}
	ended := make(chan struct{})
	go func() { b.recent.await(ctx); close(ended) }()
	b.recent.advance(reader, 20)
	receive(t, ended)
	if waited := waits(); waited >= behindWait {
		t.Errorf("waited %s for a reader that is near", waited)
	}
	b.recent.advance(reader, 1)
	near := b.recent.near
	stop()
	receive(t, near) // wakes those that wait
	if waited := waits(); waited >= behindWait {
		t.Errorf("waited %s for a reader that has ended", waited)
	}
}

// Fails when a record that this process published is sent back by the server, from an empty stream or from one with events.
func TestEventsPublishedHereWhileReadingAreNotReadFromTheStream(t *testing.T) {
	t.Parallel()
	for _, before := range []int{0, 3} {
		b := open(t, t.TempDir(), nil)
		publishEvents(t, b, ids(before)...)
		events, followed := newHeldEvents(), make(chan *event.Record, 10)
		start(t, events.read(b))
		start(t, following(b, time.Now().Add(-time.Hour), func(r *event.Record) { followed <- r }, nil))
		// A reader may get the first from the stream, and gets the second when it has ended reading the stream.
		want := before
		for _, id := range []string{"first", "second", "third"} {
			publishEvents(t, b, id)
			for want++; want > 0; want-- {
				must(t, receive(t, events.handed).Ack(testContext(t)))
				receive(t, followed)
			}
		}
		for c := range b.streams[streamEvents].ListConsumers(testContext(t)).Info() {
			if had := uint64(before + 2); c.Delivered.Stream > had {
				t.Errorf("a consumer has read up to %d of a stream that had %d events", c.Delivered.Stream, had)
			}
		}
	}
}

// Fails when a replica counts as not ready because no event was published for a minute.
func TestAReaderWithoutEventsIsReady(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	events := newHeldEvents()
	start(t, events.read(b))
	for !receive(t, events.caught) {
		continue
	}
	must(t, b.progress.check(time.Now().Add(2*wedgedAfter)))
}

// Fails when unhandled events do not show in the readiness probe.
func TestAReaderWhoseEventsAreNotHandledIsNotReady(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	events := newHeldEvents()
	start(t, events.read(b))
	publishEvents(t, b, "1")
	h := receive(t, events.handed)
	late := func() error { return b.progress.check(time.Now().Add(wedgedAfter + time.Second)) }
	for deadline := time.Now().Add(testTimeout); late() == nil; {
		if time.Now().After(deadline) {
			t.Fatal("ready")
		}
	}
	must(t, h.Ack(testContext(t)))
	for deadline := time.Now().Add(testTimeout); late() != nil; {
		if time.Now().After(deadline) {
			t.Fatal("not ready once it was handled: ", late())
		}
	}
}

// E2: a stream that was made anew begins with sequences that the cursor has passed. Fails when its events count as done.
func TestE2EventsOfAStreamThatWasMadeAnewAreRead(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, nil)
	ctx := testContext(t)
	c, err := b.loadCursor(ctx, routeRole())
	must(t, err)
	c.skipTo(1000)
	must(t, c.save(ctx))
	closeBus(t, b)
	b = open(t, dir, nil)
	events := newHeldEvents()
	start(t, events.read(b))
	publishEvents(t, b, ids(2)...)
	for i := range 2 {
		h := receive(t, events.handed)
		if h.Seq != uint64(i+1) {
			t.Errorf("got %s", describe(h))
		}
		must(t, h.Ack(ctx))
	}
}

// Fails when a reader that failed within a term waits for the open events before it begins anew: they are handed out again anyway.
func TestAReaderThatFailedBeginsAnewAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, fail := context.WithCancel(t.Context())
		fail()
		began := time.Now()
		c := &cursor{next: 1, done: map[uint64]struct{}{}, changed: make(chan struct{}, 1)}
		c.hand(1)
		must(t, c.keep(ctx, t.Context(), newProgress().start(routeRole()), slog.New(slog.DiscardHandler)))
		if took := time.Since(began); took > 0 {
			t.Errorf("it waits for %s", took)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		must(t, c.keep(ctx, ended, newProgress().start(routeRole()), slog.New(slog.DiscardHandler)))
		if took := time.Since(began); took != closeTimeout {
			t.Errorf("at the end of the term it waits for %s", took)
		}
	})
}
