package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event"
)

// acknowledgements are those that the publishers of a test have received: the last count, by "kind-key".
type acknowledgements struct {
	mu    sync.Mutex
	last  map[string]int64
	total int64
	more  chan struct{}
}

func newAcknowledgements() *acknowledgements {
	return &acknowledgements{last: map[string]int64{}, more: make(chan struct{}, 1)}
}

func (a *acknowledgements) set(name string, n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last[name] = n
	a.total++
	select {
	case a.more <- struct{}{}:
	default:
	}
}

// await returns when there are so many acknowledgements.
func (a *acknowledgements) await(t *testing.T, total int64) {
	t.Helper()
	for ctx := testContext(t); ; {
		a.mu.Lock()
		enough := a.total >= total
		a.mu.Unlock()
		if enough {
			return
		}
		select {
		case <-a.more:
		case <-ctx.Done():
			t.Fatal("the publishers are not answered")
		}
	}
}

// settle returns when there was none for a while.
func (a *acknowledgements) settle() {
	const while = 50 * time.Millisecond
	quiet := time.NewTimer(while)
	for last := time.NewTimer(10 * while); ; {
		select {
		case <-a.more:
			quiet.Reset(while)
		case <-quiet.C:
			return
		case <-last.C:
			return
		}
	}
}

func (a *acknowledgements) copy() map[string]int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.last)
}

const powerPublishers = 4

// powerTraffic publishes until ctx ends: each message replaces the one before of its kind, except events. Bodies are large enough for the
// server to begin a new block every few dozen messages.
func powerTraffic(ctx context.Context, b *Bus, a *acknowledgements) {
	var running sync.WaitGroup
	padding := strings.Repeat("x", 48<<10)
	for p := range powerPublishers {
		key := fmt.Sprint("key", p)
		publish := func(kind string, f func(n int64) error) {
			running.Go(func() {
				for n := int64(1); ctx.Err() == nil; n++ {
					if f(n) == nil {
						a.set(kind+key, n)
					}
				}
			})
		}
		publish("event-", func(n int64) error {
			r := testRecord(fmt.Sprint(key, "-", n), "team", key)
			r.Event.Message = padding
			_, err := b.PublishEvent(ctx, r)
			return err
		})
		publish("trigger-", func(n int64) error { return b.PublishTriggers(ctx, testTrigger("team", key, n)) })
		publish("rescheduled-", func(n int64) error {
			d := testDelivery(key, "team", key)
			d.Event.Message, d.Attempts = padding, int(n)
			return b.Reschedule(ctx, &d, time.Now().Add(time.Hour))
		})
		revision := uint64(0)
		publish("state-", func(n int64) error {
			err := b.State().Put(ctx, key, fmt.Append(nil, n), revision)
			if _, at, found, getErr := b.State().Get(ctx, key); getErr == nil && found {
				revision = at
			}
			return err
		})
	}
	running.Wait()
}

// lookUp fails the test for each acknowledgement whose message, or a later one in its place, is not there.
func lookUp(t *testing.T, b *Bus, acks map[string]int64) {
	t.Helper()
	ctx := testContext(t)
	last := func(stream, subject string) *jetstream.RawStreamMsg {
		m, err := b.streams[stream].GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return &jetstream.RawStreamMsg{}
		}
		must(t, err)
		return m
	}
	for name, n := range acks {
		kind, key, _ := strings.Cut(name, "-")
		got := int64(0)
		switch kind {
		case "event":
			r, _, err := b.LastEvent(ctx, "team", "Kustomization", key)
			must(t, err)
			if r != nil {
				_, got, _ = cutNumber(r.ID)
			}
		case "trigger":
			trigger := testTrigger("team", key, n)
			if m := last(streamTriggers, string(appendTriggerSubject(nil, b.TriggerShard("team"), &trigger))); len(m.Data) > 0 {
				found, err := decodeTrigger(asMsg(m))
				must(t, err)
				got = found.Accepted.Unix()
			}
		case "rescheduled":
			d := testDelivery(key, "team", key)
			if m := last(streamDeliveries, retrySubject(b.DeliveryShard(d.Namespace, d.Provider), &d)); len(m.Data) > 0 {
				found, err := decodeDelivery(asMsg(m))
				must(t, err)
				got = int64(found.Attempts)
			}
		case "state":
			value, _, _, err := b.State().Get(ctx, key)
			must(t, err)
			got, _ = strconv.ParseInt(string(value), 10, 64)
		}
		if got < n {
			t.Errorf("%s: %d was acknowledged, %d is there", name, n, got)
		}
	}
}

func cutNumber(id string) (key string, n int64, err error) {
	key, number, _ := strings.Cut(id, "-")
	n, err = strconv.ParseInt(number, 10, 64)
	return key, n, err
}

// Invariants T3, T4, E2 and E6: an acknowledged message is there after a loss of power, also when the file system is ahead with the names
// of files, in one directory or in both, and the server starts.
//
// Fails when durable returns before the sync, when sync leaves the directory of the blocks out or looks for one block after the one it
// knows, and when guard keeps nothing or does not sync its directory. A block of acknowledged messages is then removed before those that
// replace them are on disk.
func TestAcknowledgedMessagesSurviveALossOfPower(t *testing.T) {
	for name, a := range map[string]ahead{
		"only what was synced": {}, "all names": {true, true}, "names of blocks": {blocks: true}, "names of kept blocks": {kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			disk := newPowerDisk(t)
			small := func(o *Options) {
				o.Budgets.Triggers, o.Budgets.State = 120_000, 120_000 // blocks of 32 kB
				o.fsync = disk.fsync
			}
			b := open(t, disk.data(), small)
			answered := newAcknowledgements()
			stop := start(t, func(ctx context.Context) error { powerTraffic(ctx, b, answered); return nil })
			for cut := range 3 {
				answered.await(t, int64(600*(cut+1)))
				var acks map[string]int64
				dir := disk.cut(t, a, func() {
					answered.settle() // no publisher may be answered without a sync
					acks = answered.copy()
				})
				if len(acks) != 4*powerPublishers {
					t.Fatalf("only %d publishers were answered", len(acks))
				}
				after := open(t, dir, func(o *Options) { o.Budgets.Triggers, o.Budgets.State = 120_000, 120_000 })
				lookUp(t, after, acks)
			}
			stop()
		})
	}
}

// Invariants T3 and E2: the server removes a block when its last message is replaced, and rewrites a mostly removed one, before the
// replacement is on disk. Fails when guard keeps nothing, and when restoreBlocks restores nothing.
func TestABlockOutlivesWhatReplacesItUntilThatIsSynced(t *testing.T) {
	disk := newPowerDisk(t)
	small := func(o *Options) { o.Shards, o.Budgets.Triggers = 1, 120_000 } // blocks of 32 kB
	b := open(t, disk.data(), func(o *Options) { small(o); o.fsync = disk.fsync })
	ctx := testContext(t)
	acknowledged, other, newer := testTrigger("team", "k", 1), testTrigger("team", "other", 1), testTrigger("team", "k", 2)
	other.Target.Name = strings.Repeat("x", 32_000)
	must(t, b.PublishTriggers(ctx, acknowledged))
	must(t, b.PublishTriggers(ctx, other))
	var ds []*event.Delivery
	for i := range 100 { // 10 MB, more than a block
		d := testDelivery(fmt.Sprint(i), "team", "slack")
		d.Event.Message = strings.Repeat("x", 100<<10)
		must(t, b.Reschedule(ctx, &d, time.Now().Add(time.Hour)))
		ds = append(ds, &d)
	}
	dir := disk.cut(t, ahead{true, true}, func() {
		body, err := encodeJSON(newer)
		must(t, err)
		_, err = b.js.Publish(ctx, string(appendTriggerSubject(nil, 0, &newer)), body)
		must(t, err)
		for i := range 60 {
			if i%6 > 0 { // the first stays, so that the block is rewritten and its messages are not merely passed
				must(t, b.remove(ctx, streamDeliveries, "team", uint64(i+1)))
			}
		}
	})
	for _, path := range []string{streamDir(disk.data(), streamTriggers), streamDir(disk.data(), streamDeliveries)} {
		now, err := os.Stat(filepath.Join(path, blocksDir, "1.blk"))
		if err == nil && now.Size() > 7<<20 {
			t.Fatalf("%s is neither removed nor rewritten", path)
		}
	}
	after := open(t, dir, small)
	lookUp(t, after, map[string]int64{"trigger-k": 1, "trigger-other": 1})
	for i, d := range ds {
		if i < 60 && i%6 > 0 {
			continue
		}
		if _, err := after.streams[streamDeliveries].GetLastMsgForSubject(ctx, retrySubject(0, d)); err != nil {
			t.Errorf("delivery %d: %v", i, err)
		}
	}
}
