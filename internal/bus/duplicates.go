package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// serverDuplicates is the duplicate window of EVENTS in the embedded server. It is for a publish whose outcome never became known, since
	// the connection was lost: the first repetition comes within a second or two.
	serverDuplicates = 2 * time.Second
	// lateAnswer is how long the embedded server's answer to the publish of an event is awaited, from the publish on. Its sender is answered
	// with an error after publishTimeout. Until the answer the ID is under way, since the event may be in the stream.
	lateAnswer = time.Minute
	// maxDuplicates bounds the IDs that are kept for the duplicate window: 34 MiB at most.
	maxDuplicates = 1 << 20
	// maxLoaded bounds the IDs that a start reads from the stream, the newest of the window: reading more would hold up the start. A window of
	// five minutes has fewer up to 109 events a second, which are more than those of 50,000 objects that reconcile every ten minutes.
	maxLoaded = 1 << 15
)

// duplicates has the IDs of the events that EVENTS took within the duplicate window, for the embedded server, where this process alone
// publishes. The server takes up to 190 bytes and three objects for an ID of its own window. At some thousands of events a second that would
// soon be most of the heap, and each collection would visit all of it: the IDs of ten seconds were more than half of all objects.
//
// Of more than maxDuplicates in a window, and of more than maxLoaded before a restart, the oldest are forgotten sooner.
type duplicates struct {
	window time.Duration

	mu  sync.Mutex
	ids recentIDs[place]
	// underWay has the IDs whose outcome is not known. The channel, closed with the outcome, is nil while nobody waits for it.
	underWay map[uint64]chan struct{}
}

// place is where an event is in EVENTS, and when it was stored, in nanoseconds since 1970.
type place struct {
	seq uint64
	at  int64
}

func newDuplicates(window time.Duration) *duplicates {
	return &duplicates{window: window, ids: recentIDs[place]{most: maxDuplicates, age: window}, underWay: map[uint64]chan struct{}{}}
}

// begin returns the sequence of the event with an ID, if EVENTS took it within the window. Otherwise the caller publishes it and
// then calls end. If the ID is under way already, begin first waits for its outcome, publishTimeout at most.
func (d *duplicates) begin(ctx context.Context, id string) (seq uint64, found bool, err error) {
	var late <-chan time.Time
	for key := digest(id); ; {
		d.mu.Lock()
		if seq, found = d.find(key, time.Now()); found {
			d.mu.Unlock()
			return seq, true, nil
		}
		outcome, other := d.underWay[key]
		if outcome == nil && other {
			outcome = make(chan struct{})
		}
		d.underWay[key] = outcome
		d.mu.Unlock()
		if !other {
			return 0, false, nil
		}
		if late == nil {
			late = time.After(publishTimeout)
		}
		select {
		case <-outcome:
		case <-ctx.Done():
			return 0, false, ctx.Err()
		case <-late:
			return 0, false, context.DeadlineExceeded
		}
	}
}

// end records that the outcome of a publish is known. If EVENTS took the event, add was called before.
func (d *duplicates) end(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := digest(id)
	if outcome := d.underWay[key]; outcome != nil {
		close(outcome)
	}
	delete(d.underWay, key)
}

// add records that EVENTS has the event of an ID.
func (d *duplicates) add(id string, seq uint64, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ids.add(at, digest(id), place{seq, at.UnixNano()})
}

// find returns the sequence of the event with a key, if EVENTS took it within the window before now. The caller holds the lock.
func (d *duplicates) find(key uint64, now time.Time) (seq uint64, found bool) {
	p, found := d.ids.find(key)
	return p.seq, found && now.UnixNano()-p.at < int64(d.window)
}

// loadDuplicates reads the IDs of the last window from the embedded server's stream. While the disk stands still it reads them again, until
// ctx ends.
func (b *Bus) loadDuplicates(ctx context.Context) error {
	from := time.Now().Add(-b.opts.DuplicateWindow)
	b.duplicates = newDuplicates(b.opts.DuplicateWindow)
	info, err := b.streams[streamEvents].Info(ctx)
	if err != nil {
		return fmt.Errorf("read stream: %w", err)
	}
	if info.State.LastTime.Before(from) {
		return nil
	}
	for {
		err := b.readStored(ctx, feed{from: from, most: maxLoaded}, func(l logEntry) {
			b.duplicates.add(header(l.msg.Header, nats.MsgIdHdr), l.seq, l.stored)
		})
		if err == nil {
			return nil
		}
		if !errors.Is(err, errIdle) {
			return fmt.Errorf("load IDs of events: %w", err)
		}
		b.log.Warn("IDs of events are not read yet, they are read again", "error", err)
		b.duplicates = newDuplicates(b.opts.DuplicateWindow)
	}
}
