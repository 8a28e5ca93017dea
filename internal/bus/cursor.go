package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event"
	"notifier/internal/fair"
)

const (
	// cursorKey is the key of the place of the reader of EVENTS, cursorInterval how often it is written while it moves.
	cursorKey      = "events"
	cursorInterval = 100 * time.Millisecond
	// maxOpen bounds the events that were handed out and are not done, which a successor handles again after a crash.
	maxOpen = 8192
	// maxWindow bounds the events that were handed out from the oldest open one on, done or not: doneRecord has a bit for each. A namespace
	// whose events wait keeps the oldest open for minutes, and those of all others are done meanwhile.
	maxWindow = 8 * maxOpen
	// When spillAt events were handed out from the oldest open one on, the handler is asked to store all but the newest spillLeft elsewhere, so
	// that they need not stay open.
	spillAt   = maxOpen / 4 * 3
	spillLeft = maxOpen / 4
	// closeTimeout is how long the end of a term waits for events that are being handled.
	closeTimeout = 3 * time.Second
)

// cursor records which events are done: all up to and including the floor are, and some beyond it. It is kept in a bucket, up to some
// cursorInterval old, so after a crash the open events and some others are handed out again, for a recheck.
type cursor struct {
	kv jetstream.KeyValue
	// durable returns when the events up to a sequence are on disk.
	durable func(ctx context.Context, seq uint64) error
	// changed has a value when events were done or returned since it was last read.
	changed chan struct{}

	mu       sync.Mutex
	floor    uint64
	next     uint64              // the sequence after the last that was handed out
	done     map[uint64]struct{} // handed out, beyond the floor
	earlier  map[uint64]struct{} // done in an earlier term, and not yet passed
	returned int                 // handed out and given back by Nak
	// concluded counts the sequences that were ever added to done.
	concluded uint64

	saving   sync.Mutex
	saved    uint64 // the floor in the bucket
	revision uint64
	// savedConcluded is the count of concluded when the bucket got what is done beyond the floor, doneRevision the revision of that entry.
	savedConcluded, doneRevision uint64
	// created is when the stream was made.
	created time.Time
}

// loadCursor reads the cursor from its bucket.
func (b *Bus) loadCursor(ctx context.Context) (*cursor, error) {
	c := &cursor{
		kv: b.buckets[bucketWorker], durable: b.durableEvents, changed: make(chan struct{}, 1),
		done: map[uint64]struct{}{}, earlier: map[uint64]struct{}{},
	}
	e, err := c.kv.Get(ctx, cursorKey)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
	case err != nil:
		return nil, fmt.Errorf("read cursor: %w", err)
	default:
		c.revision = e.Revision()
		if c.floor, err = strconv.ParseUint(string(e.Value()), 10, 64); err != nil {
			return nil, fmt.Errorf("read cursor: %w", err)
		}
	}
	c.saved, c.next = c.floor, c.floor+1
	return c, nil
}

// rewindCursor moves a cursor back to the end of its stream if it is beyond it: the stream was made anew, or lost its end in a loss of
// power. The next events would otherwise count as done, and so would those that are recorded beyond its floor. It is called before this
// process accepts events.
func (b *Bus) rewindCursor(ctx context.Context) error {
	c, err := b.loadCursor(ctx)
	if err != nil {
		return err
	}
	record, err := c.readDone(ctx)
	if err != nil {
		return err
	}
	// The end is read last: another replica's worker may be recording events that are stored meanwhile.
	info, err := b.streams[streamEvents].Info(ctx)
	if err != nil {
		return fmt.Errorf("read stream: %w", err)
	}
	if !c.adopt(record, info) {
		if err := c.writeDone(ctx, doneRecord{Created: info.Created, Floor: c.floor}); err != nil {
			return err
		}
	}
	if c.floor <= info.State.LastSeq {
		return nil
	}
	b.log.Warn("the place of the reader is beyond the end of the events and is moved back", "place", c.floor, "end", info.State.LastSeq)
	c.floor = info.State.LastSeq
	return c.save(ctx)
}

// skipTo marks the sequences between the last event that was handed out and seq as done. The caller holds the lock.
func (c *cursor) skipTo(seq uint64) {
	if c.floor == c.next-1 && c.next < seq {
		c.floor, c.next = seq-1, seq
		maps.DeleteFunc(c.earlier, func(done uint64, _ struct{}) bool { return done < seq }) // rare: an event seldom follows a gap
		return
	}
	for ; c.next < seq; c.next++ {
		delete(c.earlier, c.next)
		c.conclude(c.next)
	}
}

// open returns the Acker of the event of a sequence, which is being handed out. Sequences are opened in order.
func (c *cursor) open(seq uint64) *openEvent {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skipTo(seq) // the stream has no events in between
	c.next = seq + 1
	return &openEvent{cursor: c, seq: seq}
}

// conclude marks an event as done. The caller holds the lock.
func (c *cursor) conclude(seq uint64) {
	if seq != c.floor+1 {
		c.done[seq] = struct{}{}
		c.concluded++
		return
	}
	for done := true; done; _, done = c.done[c.floor+1] {
		c.floor++
		delete(c.done, c.floor)
	}
}

// counts returns the floor, how many sequences beyond it were handed out, and how many of those are neither done nor returned.
func (c *cursor) counts() (floor uint64, window, open int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	window = int(c.next - 1 - c.floor)
	return c.floor, window, window - len(c.done) - c.returned
}

// save writes what has changed.
func (c *cursor) save(ctx context.Context) error {
	c.saving.Lock()
	defer c.saving.Unlock()
	// If ctx ended a write halfway, the revision of the bucket would be unknown.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), apiTimeout)
	defer cancel()
	if err := c.saveFloor(ctx); err != nil {
		return err
	}
	return c.saveDone(ctx)
}

// saveFloor writes the floor if it has moved. The caller holds saving.
func (c *cursor) saveFloor(ctx context.Context) error {
	floor, _, _ := c.counts()
	if floor == c.saved {
		return nil
	}
	if err := c.durable(ctx, floor); err != nil { // else a loss of power could leave a cursor beyond the end of the stream
		return err
	}
	revision, err := c.kv.Update(ctx, cursorKey, strconv.AppendUint(nil, floor, 10), c.revision)
	if err != nil {
		return fmt.Errorf("write cursor: %w", err)
	}
	c.saved, c.revision = floor, revision
	return nil
}

// keep saves the cursor until ctx ends, then once more when the events in hand are done or closeTimeout is over. It returns an error when
// another replica has moved the cursor, or when an event was returned: the reader then begins anew at the floor.
//
// It sets the gauge to the number of open events. No event stays open for long, so a floor that does not move means that no event is
// handled.
func (c *cursor) keep(ctx context.Context, g *gauge) error {
	last := uint64(0)
	for fair.Sleep(ctx, cursorInterval) == nil {
		floor, _, open := c.counts()
		if g.queued.Store(int64(open)); open == 0 || floor != last {
			g.moved()
		}
		last = floor
		err := c.save(ctx)
		switch {
		case errors.Is(err, jetstream.ErrKeyRevisionMismatch):
			return errFenced
		case c.anyReturned():
			return errInterrupted
		}
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	for {
		if _, _, open := c.counts(); open == 0 {
			break
		}
		select {
		case <-c.changed:
			continue
		case <-closing.Done():
		}
		break
	}
	return c.save(ctx)
}

func (c *cursor) anyReturned() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.returned > 0
}

func (c *cursor) ended() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// openEvent acknowledges an event that was handed out. Ack may be called again and from several goroutines.
type openEvent struct {
	cursor *cursor
	seq    uint64
	ended  atomic.Bool
}

var _ event.Acker = (*openEvent)(nil)

// Ack marks the event as done.
func (e *openEvent) Ack(context.Context) error {
	if e.ended.Swap(true) {
		return nil
	}
	e.cursor.mu.Lock()
	e.cursor.conclude(e.seq)
	e.cursor.mu.Unlock()
	e.cursor.ended()
	return nil
}

// InProgress does nothing: an event is not handed out elsewhere until the term ends.
func (e *openEvent) InProgress() error { return nil }

// Nak returns the event: it is handed out again, with all others that are not done.
func (e *openEvent) Nak() error {
	if e.ended.Swap(true) {
		return nil
	}
	e.cursor.mu.Lock()
	e.cursor.returned++
	e.cursor.mu.Unlock()
	e.cursor.ended()
	return nil
}
