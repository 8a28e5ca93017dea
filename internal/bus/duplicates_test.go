package bus

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
)

// Fails when an ID is forgotten before the window is over, or when it is found after that.
func TestAnIDIsADuplicateForTheWholeWindowAndNotAfterIt(t *testing.T) {
	const window = 5 * time.Minute
	d := newDuplicates(window)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const step = time.Second
	at := func(i int) time.Time { return start.Add(time.Duration(i) * step) }
	const all = 2000
	for i := range all {
		now := at(i)
		d.add(fmt.Sprint(i), uint64(i+1), now)
		for _, age := range []time.Duration{0, window / 2, window - step} {
			first := i - int(age/step)
			if first < 0 {
				continue
			}
			if seq, found := d.find(fmt.Sprint(first), now); !found || seq != uint64(first+1) {
				t.Fatalf("after %s: found %v, at sequence %d, not %d", age, found, seq, first+1)
			}
		}
		if first := i - int(window/step); first >= 0 {
			if _, found := d.find(fmt.Sprint(first), now); found {
				t.Fatalf("found after %s", window)
			}
		}
	}
	kept := 0
	for _, p := range d.ids.parts {
		kept += len(p.ids)
	}
	if most := int(window/step) * (idParts + 1) / (idParts - 1); kept > most {
		t.Errorf("%d IDs are kept, more than %d", kept, most)
	}
}

// Fails when the IDs of a window are kept without a bound, or in objects that the collector visits one by one.
func TestAMillionIDsOfEventsTakeABoundedMemory(t *testing.T) {
	heap := func() (m runtime.MemStats) {
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m
	}
	before := heap()
	d := newDuplicates(time.Hour)
	now := time.Now()
	for i := range maxDuplicates * 3 / 2 {
		d.add(fmt.Sprint(i), 1, now)
	}
	after := heap()
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 40*mib {
		t.Errorf("they take %d MiB", grown/mib)
	}
	if objects := int64(after.HeapObjects) - int64(before.HeapObjects); objects > maxDuplicates/100 {
		t.Errorf("they are %d objects", objects)
	}
	if _, found := d.find(fmt.Sprint(maxDuplicates*3/2-1), now); !found {
		t.Error("the last is forgotten")
	}
	runtime.KeepAlive(d)
}

// Fails when the answer relies on the server, whose own window is short, or when a restart does not read the IDs of the window.
func TestTheServersShortWindowIsNotTheLimitForDuplicates(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, nil)
	ctx := testContext(t)
	if got := b.streams[streamEvents].CachedInfo().Config.Duplicates; got != serverDuplicates {
		t.Fatalf("the server's window is %s", got)
	}
	publish := func(id string) bool {
		duplicate, err := b.PublishEvent(ctx, testRecord(id, "team", "app"))
		must(t, err)
		return duplicate
	}
	publish("old")
	forgetAtServer(t, b)
	if !publish("old") || publish("new") {
		t.Error("the server's window decides")
	}
	must(t, b.Close(ctx))
	b = open(t, dir, nil)
	forgetAtServer(t, b)
	if !publish("old") || !publish("new") {
		t.Error("the IDs are forgotten at a restart")
	}
}

// Fails when the ID of an event is kept only once its publish is answered: the sender that has given up repeats it, perhaps after the
// server's window, and a repetition is answered before the first is on disk.
func TestAnEventWhoseSenderGaveUpIsADuplicate(t *testing.T) {
	disk := &heldDisk{}
	b := open(t, t.TempDir(), func(o *Options) { o.fsync = disk.fsync })
	disk.gate = make(chan struct{})
	publish := func(ctx context.Context) (bool, error) { return b.PublishEvent(ctx, testRecord("1", "team", "app")) }
	ctx, cancel := context.WithCancel(testContext(t))
	answer := make(chan error, 1)
	go func() {
		_, err := publish(ctx)
		answer <- err
	}()
	for disk.held.Load() == 0 {
		runtime.Gosched()
	}
	cancel()
	if err := receive(t, answer); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	forgetAtServer(t, b)
	if duplicate, err := publish(ctx); !duplicate || !errors.Is(err, context.Canceled) {
		t.Errorf("before the sync: %v, a duplicate: %v", err, duplicate)
	}
	close(disk.gate)
	if duplicate, err := publish(testContext(t)); !duplicate || err != nil {
		t.Errorf("after the sync: %v, a duplicate: %v", err, duplicate)
	}
}

// Fails when an ID that the server alone knew is not kept: only the server's short window would know it.
func TestADuplicateThatTheServerFoundIsKept(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	publishEvents(t, b, "1")
	b.duplicates = newDuplicates(b.opts.DuplicateWindow)
	for range 2 {
		r := testRecord("1", "team", "app")
		if duplicate, err := b.PublishEvent(testContext(t), r); !duplicate || err != nil || r.Seq != 1 {
			t.Fatalf("a duplicate: %v, of sequence %d, %v", duplicate, r.Seq, err)
		}
		forgetAtServer(t, b)
	}
}

// forgetAtServer returns when the server has forgotten the IDs of all events until now.
func forgetAtServer(t *testing.T, b *Bus) {
	t.Helper()
	ctx := testContext(t)
	cfg := b.streams[streamEvents].CachedInfo().Config
	cfg.Duplicates = 100 * time.Millisecond // the least that it takes
	_, err := b.js.UpdateStream(ctx, cfg)
	must(t, err)
	probe := newMsg(prefixEvents+"team.Probe.probe", nil)
	probe.Header.Set(nats.MsgIdHdr, "probe")
	_, err = b.js.PublishMsg(ctx, probe)
	must(t, err)
	for {
		a, err := b.js.PublishMsg(ctx, probe)
		must(t, err)
		if !a.Duplicate {
			return
		}
	}
}

// Fails when a start reads the IDs of a whole backlog, or of other events than the newest.
func TestOnlyTheNewestEventsAreReadWhenThereAreMore(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	publishEvents(t, b, ids(10)...)
	var read []uint64
	f := feed{bus: b, from: time.Now().Add(-time.Hour), most: 3}
	must(t, f.run(testContext(t), func(l logEntry) error {
		read = append(read, l.seq)
		return nil
	}))
	if !slices.Equal(read, []uint64{8, 9, 10}) {
		t.Errorf("read %d", read)
	}
}

// Fails when an event is published while an earlier publish of its ID has no outcome, as when its sender gave that up, or when an ID that was
// refused is not published again.
func TestAnEventThatIsRepeatedBeforeTheAnswerIsADuplicate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		b, disk := newSlowBus(ctx, t, streamEvents, 5*publishTimeout/4)
		disk.answer = lateAnswer
		b.duplicates = newDuplicates(time.Hour)
		b.events = newEventCommitter(b)
		publish := func() (bool, error) { return b.PublishEvent(t.Context(), testRecord("1", "team", "app")) }
		if _, err := publish(); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("the first sender got %v", err)
		}
		if duplicate, err := publish(); !duplicate || err != nil {
			t.Errorf("a duplicate: %v, %v", duplicate, err)
		}
		m, _, err := encodeRecord(testRecord("2", "team", "app"))
		must(t, err)
		out := b.publishAll(t.Context(), streamEvents, []*nats.Msg{m, m})
		if out[0].ack.Duplicate || !out[1].ack.Duplicate || out[1].ack.Sequence != 2 {
			t.Errorf("in one round: %+v", out)
		}
		end()
		b.work.Wait()
	})
}
