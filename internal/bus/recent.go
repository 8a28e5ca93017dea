package bus

import (
	"sync"
	"time"

	"notifier/internal/event"
)

const (
	// recentRecords and recentBytes bound what of EVENTS is kept in memory for its readers.
	recentRecords = 4096
	recentBytes   = 16 << 20
	// gapPatience is how long a reader waits for a record that is stored and that its publisher does not know of yet.
	gapPatience = 2 * time.Millisecond
)

// recent keeps the newest records that this process published, by their place in EVENTS. A reader that is not far behind takes them from
// here, so that an event which this process accepted is neither sent back by the server nor decoded again. What is not here is read from
// the stream: what another replica published, what is too old, and what had no room.
//
// The records are shared by all readers and must not be changed.
type recent struct {
	mu      sync.Mutex
	records []*event.Record // the record of sequence s is at s modulo their number
	bytes   int
	last    uint64 // the newest sequence that was put
	wake    map[chan struct{}]struct{}
}

func newRecent() *recent {
	return &recent{records: make([]*event.Record, recentRecords), wake: map[chan struct{}]struct{}{}}
}

// put keeps r, which has its place in the stream.
func (c *recent) put(r *event.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := &c.records[r.Seq%recentRecords]
	if *at != nil {
		if (*at).Seq > r.Seq {
			return
		}
		c.bytes -= sizeOf(*at)
		*at = nil
	}
	c.last = max(c.last, r.Seq)
	if size := sizeOf(r); c.bytes+size <= recentBytes {
		*at = r
		c.bytes += size
	}
	c.wakeAll()
}

// note says that the stream has a message at seq, which may not be here: the answer to its publish was lost, or it was a duplicate.
func (c *recent) note(seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if seq > c.last {
		c.last = seq
		c.wakeAll()
	}
}

// wakeAll wakes the readers. The lock is held.
func (c *recent) wakeAll() {
	for w := range c.wake {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

// take returns up to most records from seq on without a gap, and the newest sequence that was put.
func (c *recent) take(seq uint64, most int) (found []*event.Record, last uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ; len(found) < most; seq++ {
		r := c.records[seq%recentRecords]
		if r == nil || r.Seq != seq {
			break
		}
		found = append(found, r)
	}
	return found, c.last
}

// watch returns a channel that has a value when something was put since it was last read, until stop is called.
func (c *recent) watch() (wake <-chan struct{}, stop func()) {
	w := make(chan struct{}, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wake[w] = struct{}{}
	return w, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.wake, w)
	}
}

// sizeOf is about how many bytes of memory a record takes.
func sizeOf(r *event.Record) int {
	size := recordOverhead + len(r.Event.Message)
	for k, v := range r.Event.Metadata {
		size += len(k) + len(v)
	}
	return size
}

// recordOverhead is what a record takes beside its texts, about.
const recordOverhead = 1 << 10
