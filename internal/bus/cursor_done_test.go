package bus

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// savedDone waits until the bucket has so many events beyond the floor that are done.
func savedDone(t *testing.T, b *Bus, want int) {
	t.Helper()
	ctx := testContext(t)
	for got := 0; got != want; {
		c, err := b.loadCursor(ctx)
		must(t, err)
		info, err := b.streams[streamEvents].Info(ctx)
		must(t, err)
		_, err = c.loadDone(ctx, info)
		must(t, err)
		got = len(c.earlier)
	}
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
	savedDone(t, b, count-2)
}

// E3: one destination that hangs keeps the oldest event open. Fails when a crash has the events behind it, which are done, handed out again;
// also after a second crash, before they are passed.
func TestE3WhatIsDoneBehindAnOpenEventIsNotHandedOutAgain(t *testing.T) {
	t.Parallel()
	const count = 200
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
	for floor := uint64(0); floor != 100; {
		c, err := b.loadCursor(testContext(t))
		must(t, err)
		floor = c.floor
	}
}

// E2: fails when events of a stream that was made anew, or that lost its end, count as done because earlier ones had their sequences.
func TestE2EventsThatFollowALossAreNotTakenForDone(t *testing.T) {
	t.Parallel()
	unchanged := func(*doneRecord) {}
	for name, test := range map[string]struct {
		before int // events in the stream, of which none was handled
		change func(r *doneRecord)
	}{
		"another stream":             {leastDone, func(r *doneRecord) { r.Created = r.Created.Add(-time.Hour) }},
		"beyond the end":             {0, unchanged},
		"beyond the end in part":     {3, func(r *doneRecord) { r.Done[0] = 0xf8 }},
		"a record that is no record": {leastDone, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			b := open(t, dir, nil)
			ctx := testContext(t)
			info, err := b.streams[streamEvents].Info(ctx)
			must(t, err)
			done := map[uint64]struct{}{}
			for seq := uint64(1); seq <= leastDone; seq++ {
				done[seq] = struct{}{}
			}
			c, err := b.loadCursor(ctx)
			must(t, err)
			if test.change == nil {
				_, err := c.kv.Put(ctx, doneKey, []byte("1"))
				must(t, err)
			} else {
				r, _ := newDoneRecord(info.Created, 0, done)
				test.change(&r)
				must(t, c.writeDone(ctx, r))
			}
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
func TestWhatAnEarlierTermHasDoneIsRecordedUntilItIsPassed(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	info, err := b.streams[streamEvents].Info(ctx)
	must(t, err)
	info.State.LastSeq = 1000
	load := func() *cursor {
		c, err := b.loadCursor(ctx)
		must(t, err)
		c.durable = func(context.Context, uint64) error { return nil }
		_, err = c.loadDone(ctx, info)
		must(t, err)
		return c
	}
	c := load()
	c.open(1)
	for seq := uint64(2); seq <= 200; seq++ {
		must(t, c.open(seq).Ack(ctx))
	}
	must(t, c.save(ctx))
	c = load()
	c.open(1)
	if !c.pass(2) || c.pass(300) {
		t.Error("passed others than those that are done")
	}
	c.mu.Lock()
	c.conclude(500) // one more is done
	c.mu.Unlock()
	must(t, c.save(ctx))
	if c = load(); len(c.earlier) != 200 {
		t.Errorf("%d are known as done, want 200", len(c.earlier))
	}
}

// Fails when the record is larger than a write of the bucket should be, or loses a sequence that it can hold.
func TestARecordOfWhatIsDoneIsSmall(t *testing.T) {
	t.Parallel()
	const floor = 1 << 40
	want, done := map[uint64]struct{}{}, map[uint64]struct{}{floor: {}, floor + maxOpen + 1: {}}
	for i := uint64(2); i <= maxOpen; i += 3 {
		want[floor+i], done[floor+i] = struct{}{}, struct{}{}
	}
	r, newest := newDoneRecord(time.Now(), floor, done)
	if diff := cmp.Diff(want, r.sequences()); diff != "" {
		t.Error(diff)
	}
	if len(r.Done) > maxOpen/8 || newest != floor+maxOpen {
		t.Errorf("%d bytes, newest %d", len(r.Done), newest-floor)
	}
}
