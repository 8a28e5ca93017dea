package bus

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"notifier/internal/event"
)

const (
	// serverDuplicates is the duplicate window of EVENTS in the embedded server. It covers the cases that duplicates does not: two publishes of
	// one ID at a time, and a message whose place is unknown, since its publish was not answered in time. The sender repeats it in seconds.
	serverDuplicates = 10 * time.Second
	// maxDuplicates bounds the IDs that are kept for the duplicate window: 56 MiB at most.
	maxDuplicates = 1 << 20
	// maxLoaded bounds the IDs that a start reads from the stream, the newest of the window: reading more would hold up the start. A window of
	// five minutes has fewer up to 109 events a second, which are more than those of 50,000 objects that reconcile every ten minutes.
	maxLoaded = 1 << 15
)

// duplicates has the IDs of the events that EVENTS took within the duplicate window, for the embedded server, where this process alone
// publishes. The server takes up to 190 bytes and three objects for an ID of its own window. At some thousands of events a second that would
// soon be most of the heap, and each collection would visit all of it.
//
// Of more than maxDuplicates in a window, and of more than maxLoaded before a restart, the oldest are forgotten sooner.
type duplicates struct {
	window time.Duration

	mu  sync.Mutex
	ids recentIDs[place]
}

// place is where an event is in EVENTS, and when it was stored, in nanoseconds since 1970.
type place struct {
	seq uint64
	at  int64
}

func newDuplicates(window time.Duration) *duplicates {
	return &duplicates{window: window, ids: recentIDs[place]{most: maxDuplicates, age: window}}
}

// add records that EVENTS has the event of an ID.
func (d *duplicates) add(id string, seq uint64, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ids.add(at, digest(id), place{seq, at.UnixNano()})
}

// find returns the sequence of the event with an ID, if EVENTS took it within the window before now.
func (d *duplicates) find(id string, now time.Time) (seq uint64, found bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, found := d.ids.find(digest(id))
	return p.seq, found && now.UnixNano()-p.at < int64(d.window)
}

// loadDuplicates reads the IDs of the last window from the embedded server's stream.
func (b *Bus) loadDuplicates(ctx context.Context) error {
	b.duplicates = newDuplicates(b.opts.DuplicateWindow)
	from := time.Now().Add(-b.duplicates.window)
	info, err := b.streams[streamEvents].Info(ctx)
	if err != nil {
		return fmt.Errorf("read stream: %w", err)
	}
	if info.State.LastTime.Before(from) {
		return nil
	}
	err = b.readStored(ctx, feed{from: from, most: maxLoaded}, func(l logEntry) {
		b.duplicates.add(header(l.msg.Header, nats.MsgIdHdr), l.seq, l.stored)
	})
	if err != nil {
		return fmt.Errorf("load IDs of events: %w", err)
	}
	return nil
}

// isDuplicate reports whether EVENTS took the record's ID within the duplicate window, and at which sequence. With a remote server that
// server alone knows, and it answers the publish accordingly.
func (b *Bus) isDuplicate(r *event.Record) (seq uint64, yes bool) {
	if b.duplicates == nil {
		return 0, false
	}
	return b.duplicates.find(r.ID, time.Now())
}
