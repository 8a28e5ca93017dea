package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"notifier/internal/bus/browse"
	"notifier/internal/event"
	"notifier/internal/fair"
)

const (
	// cursorInterval is how often the place of a reader of EVENTS is written while it moves.
	cursorInterval = 100 * time.Millisecond
	// maxOpen bounds the events that were handed out and are not done, which a successor handles again after a crash.
	maxOpen = 8192
	// maxWindow bounds the events that were handed out from the oldest open one on, done or not: cursorRecord has a bit for each. A namespace
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
	// loaded is the record that the bucket had, and created is when the stream was made.
	loaded  cursorRecord
	created time.Time
	// durable returns when the events up to a sequence are on disk.
	durable func(ctx context.Context, seq uint64) error
	// changed has a value when events were done or returned since it was last read.
	changed chan struct{}

	mu       sync.Mutex
	floor    uint64              // all events up to it are done, and the next is not
	done     map[uint64]struct{} // the others that are, in this term or in an earlier one
	next     uint64              // the sequence after the last that was handed out or passed
	seen     uint64              // the newest that was read from the stream
	seenAt   time.Time           // when the server stored it
	open     int                 // handed out, neither done nor returned
	returned bool                // an event was given back by Nak
	changes  uint64              // of floor and done

	saving sync.Mutex
	entry  workerEntry[cursorRecord]
	saved  uint64 // the changes that are in the bucket
}

// cursorKeys are the keys of the places of the readers of EVENTS, by role.
var cursorKeys = map[string]string{roleRoute: "events", roleSubscribe: "subscribe"}

// loadCursor reads the cursor of a role from its bucket.
func (b *Bus) loadCursor(ctx context.Context, r role) (*cursor, error) {
	c := &cursor{
		durable: b.durableEvents, changed: make(chan struct{}, 1), done: map[uint64]struct{}{},
		entry: workerEntry[cursorRecord]{bucket: b.buckets[bucketWorker], key: cursorKeys[r.name], name: "cursor"},
	}
	var err error
	if c.loaded, err = c.entry.load(ctx); err != nil { // a record that cannot be read is of no stream: no event counts as done
		return nil, err
	}
	c.floor, c.seen, c.seenAt = c.loaded.Floor, c.loaded.Seen, c.loaded.SeenAt
	c.next = c.floor + 1
	return c, nil
}

// openCursor reads the cursor of a role and the end of its stream. It moves the cursor back, and saves that, if the stream was made anew, or
// if the server lost its end in a loss of power: events that have the places of earlier ones would otherwise count as done. Of a cursor that
// cannot be read it makes one at the beginning.
func (b *Bus) openCursor(ctx context.Context, r role) (c *cursor, end uint64, err error) {
	if c, err = b.loadCursor(ctx, r); err != nil {
		return nil, 0, err
	}
	// The end is read last: another replica's worker may be recording events that are stored meanwhile.
	info, err := b.streams[streamEvents].Info(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("read stream: %w", err)
	}
	last := uint64(0)
	if c.created = info.Created; c.loaded.Created.Equal(info.Created) {
		if last, err = b.survived(ctx, c.loaded, &info.State); err != nil {
			return nil, 0, err
		}
	}
	if c.adopt(last) {
		return c, info.State.LastSeq, nil
	}
	b.log.Warn("the place of the reader is not one of the events and is moved back", "role", r.name, "recorded", c.loaded.Floor, "now", c.floor)
	if err := b.seeLast(ctx, c, last); err != nil {
		return nil, 0, err
	}
	return c, info.State.LastSeq, c.save(ctx)
}

// seeLast has a cursor that was moved back record the last event that survived as the newest that was read: the server may lose its end again
// before a reader is beyond it. If that event was removed, no other one that was stored up to a time has a later place.
func (b *Bus) seeLast(ctx context.Context, c *cursor, last uint64) error {
	if last == 0 || c.loaded.Seen == 0 {
		return nil
	}
	stored := c.loaded.SeenAt.Add(-browse.MaxSkew - 1)
	m, err := b.streams[streamEvents].GetMsg(ctx, last)
	if err == nil {
		stored = m.Time
	} else if !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("read last event: %w", err)
	}
	c.see(last, stored)
	return nil
}

// survived returns the last event that was in the stream as a record was written: the end of the stream unless that was lost since. Other
// events may have the places of the lost ones, since any replica publishes as soon as the server is back. So the end is lost as well if the
// event that was seen last was stored at another time, or is gone and an event before it was stored after it. The lost ones, and all that
// follow them, are then those that were stored after it. The servers' clocks may differ, so what was stored shortly before is handed out as
// well, for a recheck: the history reaches back further.
func (b *Bus) survived(ctx context.Context, r cursorRecord, state *jetstream.StreamState) (last uint64, err error) {
	if r.Seen == 0 || r.Seen < state.FirstSeq {
		return state.LastSeq, nil
	}
	if r.Seen <= state.LastSeq {
		m, err := b.streams[streamEvents].GetMsg(ctx, r.Seen)
		if err == nil && m.Time.Equal(r.SeenAt) {
			return state.LastSeq, nil
		}
		if errors.Is(err, jetstream.ErrMsgNotFound) { // it was removed, or another one in its place
			if last, err = b.lastBefore(ctx, r.SeenAt.Add(1)); err == nil && last >= r.Seen {
				return state.LastSeq, nil
			}
		}
		if err != nil {
			return 0, fmt.Errorf("read last event: %w", err)
		}
	}
	last, err = b.lastBefore(ctx, r.SeenAt.Add(-browse.MaxSkew))
	return min(last, state.LastSeq), err
}

// lastBefore returns the sequence before that of the first event that was stored since a time.
func (b *Bus) lastBefore(ctx context.Context, since time.Time) (uint64, error) {
	later, err := b.readFrom(ctx, b.stream(streamEvents), 0, since, true)
	if err != nil {
		return 0, err
	}
	later.Stop() // what is behind it is not counted: some may have been removed
	return later.consumer.CachedInfo().Delivered.Stream, nil
}

// skipTo marks the sequences between the last event that was handed out and seq as done. The caller holds the lock.
func (c *cursor) skipTo(seq uint64) {
	if c.floor >= c.next-1 && c.floor < seq-1 {
		c.floor, c.next, c.changes = seq-1, seq, c.changes+1
		maps.DeleteFunc(c.done, func(done uint64, _ struct{}) bool { return done < seq }) // rare: an event seldom follows a gap
	}
	for ; c.next < seq; c.next++ {
		c.conclude(c.next)
	}
	c.raise()
}

// see records that an event was read from the stream, and when it was stored.
func (c *cursor) see(seq uint64, stored time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if seq > c.seen {
		c.seen, c.seenAt = seq, stored
	}
}

// skip marks the events up to the last one of a stream as done, and saves that. None is open.
func (c *cursor) skip(ctx context.Context, s *jetstream.StreamState) error {
	c.see(s.LastSeq, s.LastTime)
	c.mu.Lock()
	c.skipTo(s.LastSeq + 1)
	c.mu.Unlock()
	return c.save(ctx)
}

// hand returns the Acker of the event of a sequence, which is being handed out. Sequences are handed out in order.
func (c *cursor) hand(seq uint64) *openEvent {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skipTo(seq) // the stream has no events in between
	c.next = seq + 1
	c.open++
	return &openEvent{cursor: c, seq: seq}
}

// pass reports whether an earlier term has done the event of a sequence, which is the next to be handed out.
func (c *cursor) pass(seq uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, done := c.done[seq]; !done && seq > c.floor {
		return false
	}
	c.skipTo(seq)
	c.next = seq + 1
	return true
}

// conclude marks an event as done. The caller holds the lock.
func (c *cursor) conclude(seq uint64) {
	if seq > c.floor {
		c.done[seq] = struct{}{}
		c.changes++
	}
	c.raise()
}

// raise moves the floor over the events that are done. The caller holds the lock.
func (c *cursor) raise() {
	for {
		if _, done := c.done[c.floor+1]; !done {
			return
		}
		c.floor++
		delete(c.done, c.floor)
	}
}

// counts returns the floor, how many sequences beyond it were handed out or passed, and how many events are open.
func (c *cursor) counts() (floor uint64, window, open int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.floor, max(0, int(c.next-1-c.floor)), c.open
}

// save writes the cursor if it has changed.
func (c *cursor) save(ctx context.Context) error {
	c.saving.Lock()
	defer c.saving.Unlock()
	// If ctx ended a write halfway, the revision of the bucket would be unknown.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), apiTimeout)
	defer cancel()
	c.mu.Lock()
	floor, changes := c.floor, c.changes
	if changes == c.saved {
		c.mu.Unlock()
		return nil
	}
	done, seen, seenAt := maps.Clone(c.done), c.seen, c.seenAt
	c.mu.Unlock()
	record, newest := newCursorRecord(c.created, floor, done)
	record.Seen, record.SeenAt = seen, seenAt
	if err := c.durable(ctx, max(newest, seen)); err != nil { // else a loss of power could leave a cursor beyond the end of the stream
		return err
	}
	if err := c.entry.save(ctx, record); err != nil {
		return err
	}
	c.saved = changes
	return nil
}

// keep saves the cursor until ctx ends, then once more, at the end of the term when the events in hand are done or closeTimeout is over. It
// returns an error when another replica has moved the cursor, or when an event was returned: the reader then begins anew at the floor.
//
// It sets the gauge to the number of open events. No event stays open for long, so a floor that does not move means that no event is
// handled.
func (c *cursor) keep(ctx, term context.Context, g *gauge, log *slog.Logger) error {
	last, warnings := uint64(0), rate.Sometimes{Interval: warnEvery}
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
		case c.anyReturned() && ctx.Err() == nil: // at the end of a term many are returned
			return errInterrupted
		case err != nil:
			warnings.Do(func() {
				log.Warn("the place of the reader is not recorded, trying again", "role", g.name, "error", err)
			})
		}
	}
	closing := time.After(closeTimeout)
	for _, _, open := c.counts(); open > 0 && term.Err() != nil; _, _, open = c.counts() {
		select {
		case <-c.changed:
			continue
		case <-closing:
		}
		break
	}
	return c.save(ctx)
}

func (c *cursor) anyReturned() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.returned
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
	e.end(func(c *cursor) { c.conclude(e.seq) })
	return nil
}

// InProgress does nothing: an event is not handed out elsewhere until the term ends.
func (e *openEvent) InProgress() error { return nil }

// Nak returns the event: it is handed out again, with all others that are not done.
func (e *openEvent) Nak() error {
	e.end(func(c *cursor) { c.returned = true })
	return nil
}

// end closes the event once, and records how it ended.
func (e *openEvent) end(record func(c *cursor)) {
	if e.ended.Swap(true) {
		return
	}
	c := e.cursor
	c.mu.Lock()
	c.open--
	record(c)
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default:
	}
}
