package bus

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
)

// adopted returns a cursor that has read what is recorded.
func adopted(t *testing.T, b *Bus) *cursor {
	t.Helper()
	ctx := testContext(t)
	c, err := b.loadCursor(ctx, routeRole())
	must(t, err)
	info, err := b.streams[streamEvents].Info(ctx)
	must(t, err)
	c.created = info.Created
	c.adopt(info.State.LastSeq)
	return c
}

// beyond publishes and reads so many events, and acknowledges all but the first and the tenth. It returns when the bucket knows.
func beyond(t *testing.T, b *Bus, events *heldEvents, count int) {
	t.Helper()
	publishEvents(t, b, ids(count)...)
	for i := range count {
		if h := receive(t, events.handed); i != 0 && i != 9 {
			must(t, h.Ack(testContext(t)))
		}
	}
	for deadline := time.Now().Add(testTimeout); len(adopted(t, b).done) != count-2; {
		if time.Now().After(deadline) {
			t.Fatal("not recorded")
		}
	}
}

// E3: one destination that hangs keeps the oldest event open. Fails when a crash has the events behind it, which are done, handed out again,
// however few these are; also after a second crash, before they are passed.
func TestE3EventsDoneBehindAnOpenOneAreNotRedelivered(t *testing.T) {
	t.Parallel()
	const count = 20
	dir := t.TempDir()
	b := open(t, dir, nil)
	events := newHeldEvents()
	stop := start(t, events.read(b))
	beyond(t, b, events, count)
	for crash := range 2 {
		die(b)
		stop()
		b = open(t, dir, nil)
		events = newHeldEvents()
		stop = start(t, events.read(b))
		for !receive(t, events.caught) {
			continue
		}
		id := fmt.Sprint("new-", crash)
		publishEvents(t, b, id)
		want := []string{"0000 1 true", "0009 10 true"}
		for earlier := range crash {
			want = append(want, fmt.Sprintf("new-%d %d true", earlier, count+1+earlier))
		}
		want = append(want, fmt.Sprintf("%s %d false", id, count+1+crash))
		var got []string
		for range want {
			got = append(got, describe(receive(t, events.handed)))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	}
}

// The floor moves over the events that an earlier term has done as soon as the open ones are done. Fails when it stops at one of them.
func TestTheFloorPassesWhatAnEarlierTermHasDone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir, nil)
	events := newHeldEvents()
	stop := start(t, events.read(b))
	beyond(t, b, events, 100)
	die(b)
	stop()
	b = open(t, dir, nil)
	events = newHeldEvents()
	start(t, events.read(b))
	for range 2 {
		must(t, receive(t, events.handed).Ack(testContext(t)))
	}
	for deadline := time.Now().Add(testTimeout); adopted(t, b).floor != 100; {
		if time.Now().After(deadline) {
			t.Fatal("the floor is behind")
		}
	}
}

// E2: fails when events of a stream that was made anew, or that lost its end, count as done because earlier ones had their sequences.
func TestE2EventsThatFollowALossAreNotTakenForDone(t *testing.T) {
	t.Parallel()
	unchanged := func(*cursorRecord) {}
	for name, test := range map[string]struct {
		before int // events in the stream, of which none was handled
		change func(r *cursorRecord)
	}{
		"another stream": {64, func(r *cursorRecord) { r.Created = r.Created.Add(-time.Hour) }},
		// As when another replica published in the moment after the stream was made anew.
		"another stream, all up to a sequence": {3, func(r *cursorRecord) { *r = cursorRecord{Created: r.Created.Add(-time.Hour), Floor: 64} }},
		"beyond the end":                       {0, unchanged},
		"beyond the end in part":               {3, func(r *cursorRecord) { r.Done[0] = 0xf8 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			b := open(t, dir, nil)
			ctx := testContext(t)
			info, err := b.streams[streamEvents].Info(ctx)
			must(t, err)
			done := map[uint64]struct{}{}
			for seq := uint64(1); seq <= 64; seq++ {
				done[seq] = struct{}{}
			}
			c, err := b.loadCursor(ctx, routeRole())
			must(t, err)
			r, _ := newCursorRecord(info.Created, 0, done)
			test.change(&r)
			must(t, c.entry.save(ctx, r))
			publishEvents(t, b, ids(test.before)...)
			closeBus(t, b)
			b = open(t, dir, nil)
			publishEvents(t, b, "1", "2", "3", "4")
			events := newHeldEvents()
			start(t, events.read(b))
			for i := range test.before + 4 {
				if h := receive(t, events.handed); h.Seq != uint64(i+1) {
					t.Errorf("got %s", describe(h))
				}
			}
		})
	}
}

// Fails when a term that ends before it has passed what earlier terms have done forgets it.
func TestEventsDoneInAnEarlierTermAreRecordedUntilTheyArePassed(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	publishEvents(t, b, ids(200)...)
	load := func() *cursor { return adopted(t, b) }
	c := load()
	c.hand(1)
	for seq := uint64(2); seq <= 200; seq++ {
		must(t, c.hand(seq).Ack(ctx))
	}
	must(t, c.save(ctx))
	c = load()
	c.hand(1)
	if !c.pass(2) || c.pass(300) {
		t.Error("passed others than those that are done")
	}
	c.mu.Lock()
	c.changes++ // one more is done
	c.mu.Unlock()
	must(t, c.save(ctx))
	if c = load(); len(c.done) != 199 {
		t.Errorf("%d are known as done, want 199", len(c.done))
	}
}

// E3: fails when the record of a replaced reader overwrites that of its successor.
func TestE3AReaderThatWasReplacedDoesNotRecordWhatIsDone(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	publishEvents(t, b, ids(200)...)
	finish := func(c *cursor, last uint64) {
		c.hand(1)
		for seq := uint64(2); seq <= last; seq++ {
			must(t, c.hand(seq).Ack(ctx))
		}
	}
	old, next := adopted(t, b), adopted(t, b)
	finish(next, 200)
	must(t, next.save(ctx))
	finish(old, 100)
	if err := old.save(ctx); !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		t.Errorf("got %v", err)
	}
	if c := adopted(t, b); len(c.done) != 199 {
		t.Errorf("%d are known as done", len(c.done))
	}
}

// Fails when a worker whose record could not be written once is taken for a replaced one.
func TestARecordThatCouldNotBeWrittenIsWrittenLater(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	publishEvents(t, b, ids(3)...)
	c := adopted(t, b)
	c.hand(1)
	must(t, c.hand(2).Ack(ctx))
	must(t, c.save(ctx))
	must(t, c.hand(3).Ack(ctx))
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if c.entry.save(ended, cursorRecord{}) == nil {
		t.Error("written although the context has ended")
	}
	must(t, c.save(ctx))
}

// Fails when the floor stays behind events that are passed, or when these count as open.
func TestTheFloorMovesOverPassedEvents(t *testing.T) {
	c := &cursor{next: 1, done: map[uint64]struct{}{}, changed: make(chan struct{}, 1)}
	for seq := uint64(2); seq <= maxOpen; seq++ {
		c.done[seq] = struct{}{}
	}
	first := c.hand(1)
	for seq := uint64(2); seq <= maxOpen; seq++ {
		if !c.pass(seq) {
			t.Fatalf("%d is handed out again", seq)
		}
	}
	if floor, window, open := c.counts(); floor != 0 || window != maxOpen || open != 1 {
		t.Errorf("floor %d, window %d, %d open", floor, window, open)
	}
	must(t, first.Ack(t.Context()))
	if floor, window, open := c.counts(); floor != maxOpen || window != 0 || open != 0 || len(c.done) != 0 {
		t.Errorf("afterwards floor %d, window %d, %d open, %d done beyond it", floor, window, open, len(c.done))
	}
}

// Fails when an event is handed out again because the floor has moved over it before it was reached.
func TestTheFloorMovesOverEventsThatWereNotReached(t *testing.T) {
	c := &cursor{next: 1, done: map[uint64]struct{}{2: {}, 3: {}, 5: {}}, changed: make(chan struct{}, 1)}
	must(t, c.hand(1).Ack(t.Context()))
	if floor, window, open := c.counts(); floor != 3 || window != 0 || open != 0 {
		t.Errorf("floor %d, window %d, %d open", floor, window, open)
	}
	if !c.pass(2) || !c.pass(3) || c.pass(4) {
		t.Error("passed others than those that are done")
	}
	c.skipTo(7) // 4 and 6 are no longer in the stream
	if floor, window, _ := c.counts(); floor != 6 || window != 0 || len(c.done) != 0 {
		t.Errorf("floor %d, window %d, done beyond it %v", floor, window, c.done)
	}
}

// Fails when the record is larger than a write of the bucket should be, or loses a sequence that it can hold.
func TestARecordOfWhatIsDoneIsSmall(t *testing.T) {
	t.Parallel()
	const floor = 1 << 40
	want, done := map[uint64]struct{}{}, map[uint64]struct{}{floor: {}, floor + maxWindow + 1: {}}
	for i := uint64(1); i <= maxWindow; i += 3 {
		want[floor+i], done[floor+i] = struct{}{}, struct{}{}
	}
	r, newest := newCursorRecord(time.Now(), floor, done)
	if diff := cmp.Diff(want, r.sequences()); diff != "" {
		t.Error(diff)
	}
	if len(r.Done) > maxWindow/8 || newest != floor+maxWindow {
		t.Errorf("%d bytes, newest %d", len(r.Done), newest-floor)
	}
}

// E2: fails when a record of the cursor that cannot be read keeps the process from its start, or its reader from the events.
func TestE2ACursorThatCannotBeReadCountsAsNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir, nil)
	publishEvents(t, b, ids(2)...)
	ctx := testContext(t)
	events := newHeldEvents()
	for range 2 {
		_, err := b.buckets[bucketWorker].Put(ctx, cursorKeys[roleRoute], []byte("{"))
		must(t, err)
		stop := start(t, events.read(b))
		for i := range 2 {
			h := receive(t, events.handed)
			if h.Seq != uint64(i+1) {
				t.Errorf("got %s", describe(h))
			}
			must(t, h.Ack(ctx))
		}
		stop()
		_, err = b.buckets[bucketWorker].Put(ctx, cursorKeys[roleRoute], []byte("{"))
		must(t, err)
		closeBus(t, b)
		b = open(t, dir, nil)
	}
}
