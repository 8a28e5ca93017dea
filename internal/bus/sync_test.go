package bus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"notifier/internal/event"
)

// heldDisk is a disk on which syncs can be delayed, and fail.
type heldDisk struct {
	gate  chan struct{} // closed while syncs go through
	gated string        // the stream whose syncs are delayed, all if empty
	held  atomic.Int64  // syncs that are delayed
	fault atomic.Pointer[error]
}

func (d *heldDisk) fsync(f *os.File) error {
	if gate := d.gate; gate != nil && strings.Contains(f.Name(), blockSuffix) && strings.Contains(f.Name(), d.gated) {
		d.held.Add(1)
		<-gate
	}
	if fault := d.fault.Load(); fault != nil {
		return *fault
	}
	return f.Sync()
}

// Invariants T3, E2 and E6: the messages that must be on disk before a caller is answered. Fails when one of these does not wait for the
// sync.
func TestNothingIsAcknowledgedBeforeItsSync(t *testing.T) {
	d := testDelivery("1", "team", "slack")
	for name, publish := range map[string]func(context.Context, *Bus) error{
		"an event": func(ctx context.Context, b *Bus) error {
			_, err := b.PublishEvent(ctx, testRecord("1", "team", "app"))
			return err
		},
		"a transition": func(ctx context.Context, b *Bus) error {
			_, err := b.PublishEventAfter(ctx, testRecord("1", "team", "app"), 0)
			return err
		},
		"a trigger":    func(ctx context.Context, b *Bus) error { return b.PublishTriggers(ctx, testTrigger("team", "k", 1)) },
		"a delivery":   func(ctx context.Context, b *Bus) error { return publishDeliveries(ctx, b, []event.Delivery{d}) },
		"a reschedule": func(ctx context.Context, b *Bus) error { return b.Reschedule(ctx, &d, time.Now().Add(time.Hour)) },
		"a dead letter": func(ctx context.Context, b *Bus) error {
			return b.DeadLetter(ctx, &d, event.LabelTooLarge, "reason")
		},
		"what was last published": func(ctx context.Context, b *Bus) error { return b.State().Put(ctx, "key", []byte("v"), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			disk := &heldDisk{}
			b := open(t, t.TempDir(), func(o *Options) { o.fsync = disk.fsync })
			disk.gate = make(chan struct{})
			answer := make(chan error, 1)
			go func() { answer <- publish(context.Background(), b) }()
			for syncing := false; !syncing; {
				syncing = disk.held.Load() > 0
				select {
				case err := <-answer:
					t.Fatalf("answered before the sync: %v", err)
				default:
				}
			}
			close(disk.gate)
			must(t, receive(t, answer))
		})
	}
}

// Fails when a delivery waits for the sync of its event, or for that of an earlier one, or when a follower, on whose records what was last
// published depends, does not.
func TestAnEventIsHandedOutDuringItsSync(t *testing.T) {
	t.Parallel()
	disk := &heldDisk{}
	b := open(t, t.TempDir(), func(o *Options) { o.fsync = disk.fsync })
	events, followed, answer := newHeldEvents(), make(chan string, 2), make(chan error, 1)
	start(t, events.read(b))
	start(t, following(b, time.Now().Add(-time.Minute), func(r *event.Record) { followed <- r.ID }, nil))
	publish := func(id string) {
		_, err := b.PublishEvent(context.Background(), testRecord(id, "team", "app"))
		answer <- err
	}
	publish("1")
	must(t, receive(t, answer))
	receive(t, events.handed)
	receive(t, followed)
	disk.gate = make(chan struct{})
	end := sync.OnceFunc(func() { close(disk.gate) })
	defer end()
	for _, id := range []string{"2", "3"} {
		go publish(id)
		if h := receive(t, events.handed); h.Value.ID != id {
			t.Errorf("%s was handed out", h.Value.ID)
		}
	}
	if found, last := b.recent.take(&recentReader{}, 2, 1); len(found) != 0 || last != 1 {
		t.Errorf("a follower finds %d records, the last is %d", len(found), last)
	}
	select {
	case id := <-followed:
		t.Errorf("%s was followed before the sync", id)
	case err := <-answer:
		t.Errorf("answered before the sync: %v", err)
	default:
	}
	end()
	for _, want := range []string{"2", "3"} {
		must(t, receive(t, answer))
		if id := receive(t, followed); id != want {
			t.Errorf("%s was followed", id)
		}
	}
}

// Fails when something that refers to an event may be on disk before the event: after a loss of power another event has its place.
func TestAnEventIsOnDiskBeforeReferencesToIt(t *testing.T) {
	d := testDelivery("1", "team", "slack")
	d.Order = 1
	for name, refer := range map[string]func(context.Context, *Bus) error{
		"a delivery that waits": func(ctx context.Context, b *Bus) error { return b.Reschedule(ctx, &d, time.Now().Add(time.Hour)) },
		"a dead letter":         func(ctx context.Context, b *Bus) error { return b.DeadLetter(ctx, &d, event.LabelTooLarge, "reason") },
		"the cursor": func(ctx context.Context, b *Bus) error {
			c, err := b.loadCursor(ctx, routeRole())
			c.skipTo(d.Order + 1)
			return errors.Join(err, c.save(ctx))
		},
		"the events that are done": func(ctx context.Context, b *Bus) error {
			c, err := b.loadCursor(ctx, routeRole())
			for seq := range uint64(64) {
				c.done[d.Order+seq] = struct{}{}
			}
			c.changes++
			return errors.Join(err, c.save(ctx))
		},
		"the last event of an object": func(ctx context.Context, b *Bus) error {
			_, _, err := b.LastEvent(ctx, "team", "Kustomization", "app")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk := &heldDisk{gated: "/" + streamEvents + "/"}
			b := open(t, t.TempDir(), func(o *Options) { o.fsync = disk.fsync })
			ctx := testContext(t)
			inner, asked := b.sync, make(chan struct{}, 10)
			b.sync = func(ctx context.Context, stream string) error {
				if stream == streamEvents {
					asked <- struct{}{}
				}
				return inner(ctx, stream)
			}
			disk.gate = make(chan struct{})
			release := sync.OnceFunc(func() { close(disk.gate) })
			defer release()
			published, referred := make(chan error, 1), make(chan error, 1)
			publish := func() {
				_, err := b.PublishEvent(ctx, testRecord("1", "team", "app"))
				published <- err
			}
			early, stop := b.recent.watch(1, true)
			defer stop()
			syncs := func() float64 { return testutil.ToFloat64(b.metrics.syncs.WithLabelValues(streamEvents)) }
			before := syncs()
			go publish()
			for syncs() == before && ctx.Err() == nil { // until its own sync is under way
				continue
			}
			if records, _ := b.recent.take(early, 1, 1); len(records) != 1 {
				t.Fatal("the event cannot be read during its sync")
			}
			go func() { referred <- refer(ctx, b) }()
			receive(t, asked) // by the publish
			select {
			case <-asked:
			case err := <-referred:
				t.Fatalf("it is there before the event: %v", err)
			}
			release()
			must(t, receive(t, published))
			must(t, receive(t, referred))
		})
	}
}

// Fails when a sync is retried after an error: the system has forgotten the data that it could not write, and the second would succeed.
func TestAfterAFailedSyncNothingIsAcknowledgedAndTheBusIsLost(t *testing.T) {
	disk := &heldDisk{}
	b := open(t, t.TempDir(), func(o *Options) { o.fsync = disk.fsync })
	ctx := testContext(t)
	lost := make(chan error, 1)
	go func() { lost <- b.Run(ctx) }()
	broken := errors.New("the disk is gone")
	disk.fault.Store(&broken)
	if _, err := b.PublishEvent(ctx, testRecord("1", "team", "app")); !errors.Is(err, broken) {
		t.Errorf("published while the disk was gone: %v", err)
	}
	disk.fault.Store(nil)
	if duplicate, err := b.PublishEvent(ctx, testRecord("1", "team", "app")); !errors.Is(err, broken) {
		t.Errorf("published afterwards: duplicate %v, %v", duplicate, err)
	}
	if err := receive(t, lost); !errors.Is(err, ErrLost) {
		t.Errorf("Run returned %v", err)
	}
}

// Fails when each publisher has a sync of its own.
func TestPublishersShareASync(t *testing.T) {
	disk := &heldDisk{}
	b := open(t, t.TempDir(), func(o *Options) { o.fsync = disk.fsync })
	ctx := testContext(t)
	disk.gate = make(chan struct{})
	const publishers = 100
	answers := make(chan error, publishers)
	syncs := func() float64 { return testutil.ToFloat64(b.metrics.syncs.WithLabelValues(streamEvents)) }
	publish := func(i int) {
		_, err := b.PublishEvent(ctx, testRecord(fmt.Sprint(i), fmt.Sprint("team-", i), "app"))
		answers <- err
	}
	go publish(0)
	for syncs() == 0 && ctx.Err() == nil {
		continue
	}
	for i := range publishers - 1 {
		go publish(i + 1)
	}
	for written := 0; written < publishers-1 && ctx.Err() == nil; {
		b.events.mu.Lock()
		written = len(b.events.written)
		b.events.mu.Unlock()
	}
	close(disk.gate)
	for range publishers {
		must(t, receive(t, answers))
	}
	if got := syncs(); got != 2 {
		t.Errorf("%v syncs for one event and then %d", got, publishers-1)
	}
}

// Fails when the time of a sync is not recorded, or before its end: a slow disk would not be seen, or look fast.
func TestTheTimeOfASyncIsRecordedAtItsEnd(t *testing.T) {
	disk := &heldDisk{}
	b := open(t, t.TempDir(), func(o *Options) { o.fsync = disk.fsync })
	ctx := testContext(t)
	registry := prometheus.NewRegistry()
	must(t, registry.Register(b.metrics.syncSeconds))
	recorded := func() (syncs uint64, seconds float64) {
		families, err := registry.Gather()
		must(t, err)
		for _, m := range families[0].GetMetric() {
			if m.GetLabel()[0].GetValue() == streamEvents {
				return m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum()
			}
		}
		t.Fatal("there is no histogram of the stream")
		return 0, 0
	}
	disk.gate, disk.gated = make(chan struct{}), streamEvents
	published := make(chan error, 1)
	go func() {
		_, err := b.PublishEvent(ctx, testRecord("1", "team", "app"))
		published <- err
	}()
	for disk.held.Load() == 0 && ctx.Err() == nil {
		runtime.Gosched()
	}
	held := time.Now()
	if n, _ := recorded(); n != 0 {
		t.Errorf("%d syncs are recorded before one has ended", n)
	}
	atLeast := time.Since(held)
	close(disk.gate)
	must(t, receive(t, published))
	if n, seconds := recorded(); n != 1 || seconds < atLeast.Seconds() {
		t.Errorf("%d syncs are recorded with %v s, want one of at least %v", n, seconds, atLeast)
	}
}

// The behavior of the server that sync relies on, which an upgrade may change (see the package's documentation). A message is in the last
// block's file when it is acknowledged. The server begins another block with the next number and does not write to the one before again. A
// block whose messages are all removed is removed, and the next one has a higher number.
func TestTheServerWritesItsFilesAsSyncExpects(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, func(o *Options) { o.Shards = 1 })
	ctx := testContext(t)
	path := streamDir(dir, streamEvents)
	blocks := func() (found []string) {
		names, err := filepath.Glob(filepath.Join(path, blocksDir, "*"+blockSuffix))
		must(t, err)
		for _, name := range names {
			found = append(found, filepath.Base(name))
		}
		return found
	}
	var first os.FileInfo
	for i := 0; len(blocks()) == 1; i++ {
		body := strings.Repeat("x", 512<<10) + fmt.Sprint("message ", i)
		_, err := b.js.Publish(ctx, prefixEvents+"team.kind.app", []byte(body))
		must(t, err)
		found := blocks()
		content, err := os.ReadFile(filepath.Join(path, blocksDir, found[len(found)-1]))
		must(t, err)
		if !strings.Contains(string(content), fmt.Sprint("message ", i)) {
			t.Fatalf("message %d is acknowledged and not in %s", i, found[len(found)-1])
		}
		if len(found) == 1 {
			first, err = os.Stat(filepath.Join(path, blocksDir, found[0]))
			must(t, err)
		}
	}
	if diff := cmp.Diff([]string{"1.blk", "2.blk"}, blocks()); diff != "" {
		t.Error(diff)
	}
	_, err := b.js.Publish(ctx, prefixEvents+"team.kind.app", nil)
	must(t, err)
	after, err := os.Stat(filepath.Join(path, blocksDir, "1.blk"))
	must(t, err)
	if !os.SameFile(first, after) || first.Size() != after.Size() || !first.ModTime().Equal(after.ModTime()) {
		t.Error("a block was written to when there was another behind it")
	}

	path = streamDir(dir, streamTriggers)
	trigger := testTrigger("team", "k", 1)
	for seq := range uint64(2) {
		_, err = b.js.Publish(ctx, string(appendTriggerSubject(nil, 0, &trigger)), []byte("x"))
		must(t, err)
		must(t, b.remove(ctx, streamTriggers, "team", seq+1))
	}
	if diff := cmp.Diff([]string{"3.blk"}, blocks()); diff != "" {
		t.Error(diff)
	}
}

// Fails when the server keeps files that sync does not cover.
func TestTheServerHasNoOtherFiles(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, nil)
	d := testDelivery("1", "team", "slack")
	must(t, b.Reschedule(testContext(t), &d, time.Now().Add(time.Hour)))
	stop := start(t, deliverTo(b, make(chan event.Message[event.Delivery])))
	stop()
	die(b)
	known := regexp.MustCompile(`^(msgs|obs|meta\.(inf|sum)|msgs/(\d+\.blk|(index|sched|thw)\.db)|obs/[^/]+(/(meta\.(inf|sum)|o\.dat))?)$`)
	for _, stream := range syncedStreams() {
		root := streamDir(dir, stream)
		must(t, filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
			if rel, _ := filepath.Rel(root, path); rel != "." && !known.MatchString(filepath.ToSlash(rel)) {
				t.Errorf("%s has %s", stream, rel)
			}
			return err
		}))
	}
}
