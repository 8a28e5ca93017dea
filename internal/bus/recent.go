package bus

import (
	"context"
	"sync"
	"time"

	"notifier/internal/event"
)

const (
	// recentRecords and recentBytes bound the records of EVENTS that are kept in memory for its readers.
	recentRecords = 4096
	recentBytes   = 16 << 20
	// behindMost is how many records the worker's reader may be behind before publishers wait for it, behindWait the longest wait. A reader
	// that is too far behind for memory reads the stream. That costs so much that it cannot catch up with many publishers.
	behindMost = recentRecords / 2
	behindWait = 250 * time.Millisecond
)

// recent keeps the records that this process published until all readers have read them, by their place in EVENTS. A reader that is not far
// behind takes them from here, so that an event that this process accepted is neither sent back by the server nor decoded again. All others
// are read from the stream: records of other replicas, records that are too old, and records that exceeded recentBytes.
//
// The records are shared by all readers and must not be changed.
type recent struct {
	mu      sync.Mutex
	records []*event.Record // the record of sequence s is at s modulo their number
	bytes   int
	first   uint64 // the records before it are not kept: all readers had read them
	newest  uint64 // the newest sequence that was put
	last    uint64 // the newest sequence that was announced or noted
	synced  uint64 // the newest sequence that was noted: it is on disk with all before it
	readers map[*recentReader]struct{}
	// near is closed, and made anew, when the worker's reader is near enough.
	near chan struct{}
}

// recentReader is a reader of recent.
type recentReader struct {
	// wake gets a value when there may be more to read.
	wake chan struct{}
	// early is true if records are read before they are on disk, as the worker's reader does.
	early bool
	// next is the sequence that it reads next.
	next uint64
}

func newRecent() *recent {
	return &recent{records: make([]*event.Record, recentRecords), readers: map[*recentReader]struct{}{}, near: make(chan struct{})}
}

// put keeps r, which has its place in the stream. Readers see it once it is announced.
func (c *recent) put(r *event.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest = max(c.newest, r.Seq)
	if r.Seq < c.first {
		return
	}
	at := &c.records[r.Seq%recentRecords]
	if *at != nil {
		if (*at).Seq > r.Seq {
			return
		}
		c.bytes -= (*at).Event.Size()
		*at = nil
	}
	size := r.Event.Size()
	for seq := max(c.first, r.Seq-min(r.Seq, recentRecords)); c.bytes+size > recentBytes && seq < r.Seq; seq++ {
		c.dropBefore(seq + 1)
	}
	if c.bytes+size <= recentBytes {
		*at = r
		c.bytes += size
	}
}

// dropBefore drops the records before a sequence, also those that are older than the places of the last recentRecords. The caller holds the
// lock.
func (c *recent) dropBefore(next uint64) {
	for seq := max(c.first, next-min(next, recentRecords)); seq < next; seq++ {
		if at := &c.records[seq%recentRecords]; *at != nil && (*at).Seq <= seq {
			c.bytes -= (*at).Event.Size()
			*at = nil
		}
	}
	c.first = max(c.first, next)
}

// announce shows the readers all records that were put, and wakes them. It is called once for the records of a round, which are in the stream
// one behind the other, so that a record that is missing then is not kept. The records need not be on disk yet.
func (c *recent) announce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, c.newest)
	c.wakeAll()
}

// note records that all messages of the stream up to seq are on disk. The one at seq may be absent from recent: the answer to its publish
// was lost, or it was a duplicate.
func (c *recent) note(seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if seq > c.synced {
		c.synced, c.last = seq, max(c.last, seq)
		c.wakeAll()
	}
}

// wakeAll wakes the readers. The caller holds the lock.
func (c *recent) wakeAll() {
	for r := range c.readers {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

// isNoted reports whether the message at seq is known to be on disk.
func (c *recent) isNoted(seq uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return seq <= c.synced
}

// take returns up to most records from seq on without a gap, and the newest sequence that there is. Unless the reader is early, both are
// limited to what is on disk. The reader has read all records before seq.
func (c *recent) take(r *recentReader, seq uint64, most int) (found []*event.Record, last uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.next = seq
	c.forget()
	last = c.synced
	if r.early {
		last = c.last
	}
	for ; len(found) < most && seq <= last; seq++ {
		record := c.records[seq%recentRecords]
		if record == nil || record.Seq != seq {
			break
		}
		found = append(found, record)
	}
	return found, last
}

// forget drops the records that all readers have read: they would be marked in every collection. The caller holds the lock.
func (c *recent) forget() {
	next := c.last + 1
	for r := range c.readers {
		next = min(next, r.next)
	}
	c.dropBefore(next)
}

// watch adds a reader that reads seq next, until stop is called.
func (c *recent) watch(seq uint64, early bool) (r *recentReader, stop func()) {
	r = &recentReader{wake: make(chan struct{}, 1), early: early, next: seq}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readers[r] = struct{}{}
	return r, func() {
		c.change(func() { delete(c.readers, r) })
	}
}

// advance records the sequence that a reader reads next.
func (c *recent) advance(r *recentReader, next uint64) { c.change(func() { r.next = next }) }

// change changes a reader, and tells the publishers that wait when none is far behind any more.
func (c *recent) change(readers func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.isFar()
	if readers(); was && !c.isFar() {
		close(c.near)
		c.near = make(chan struct{})
	}
}

// isFar reports whether the worker's reader is too far behind. The caller holds the lock.
func (c *recent) isFar() bool {
	for r := range c.readers {
		if r.early && c.last > r.next+behindMost {
			return true
		}
	}
	return false
}

// await waits while the worker's reader in this process is too far behind, behindWait at most.
func (c *recent) await(ctx context.Context) {
	c.mu.Lock()
	far, near := c.isFar(), c.near
	c.mu.Unlock()
	if !far {
		return
	}
	timer := time.NewTimer(behindWait)
	defer timer.Stop()
	select {
	case <-near:
	case <-timer.C:
	case <-ctx.Done():
	}
}
