package bus

import (
	"maps"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// cursorRecord is the value of a key of cursorKeys. One slow destination keeps the floor at its oldest event. Without Done a crash would have
// every later event routed again, up to maxWindow of them for all of their Alerts.
type cursorRecord struct {
	// Created is when the stream was made: the sequences of another stream mean other events.
	Created time.Time `json:"created"`
	Floor   uint64    `json:"floor"`
	// Done has a bit for each sequence after Floor, the lowest bit of a byte first. It is set if the event is done.
	Done []byte `json:"done,omitempty"`
}

// newCursorRecord returns the record of a floor and of the sequences in done that are at most maxWindow beyond it, and the newest of them all.
func newCursorRecord(created time.Time, floor uint64, done map[uint64]struct{}) (r cursorRecord, newest uint64) {
	r = cursorRecord{Created: created, Floor: floor, Done: make([]byte, 0, maxWindow/8)}
	newest = floor
	for seq := range done {
		at := seq - floor - 1
		if at >= maxWindow { // as it is for a sequence up to the floor, which is below zero
			continue
		}
		if needed := int(at/8) + 1; needed > len(r.Done) {
			r.Done = r.Done[:needed]
		}
		r.Done[at/8] |= 1 << (at % 8)
		newest = max(newest, seq)
	}
	return r, newest
}

// sequences returns the sequences beyond the floor that are done.
func (r cursorRecord) sequences() map[uint64]struct{} {
	done := map[uint64]struct{}{}
	for i, bits := range r.Done {
		for bit := range 8 {
			if bits&(1<<bit) != 0 {
				done[r.Floor+1+uint64(8*i+bit)] = struct{}{}
			}
		}
	}
	return done
}

// adopt takes over the floor, and the events beyond it that are done, by the loaded record. It reports whether the record is of this stream
// and of no sequence that the stream does not have. Of a stream that was made anew no event counts as done: another replica may have
// published some already.
func (c *cursor) adopt(info *jetstream.StreamInfo) (trusted bool) {
	c.created = info.Created
	if !c.loaded.Created.Equal(info.Created) {
		c.floor, c.next = 0, 1
		return c.entry.revision == 0
	}
	c.done = c.loaded.sequences()
	trusted = c.floor <= info.State.LastSeq
	for seq := range c.done {
		trusted = trusted && seq <= info.State.LastSeq
	}
	c.raise()
	c.next = c.floor + 1
	return trusted
}

// forget has no event after a sequence count as done.
func (c *cursor) forget(last uint64) {
	maps.DeleteFunc(c.done, func(seq uint64, _ struct{}) bool { return seq > last })
	c.floor = min(c.floor, last)
	c.next, c.changes = c.floor+1, c.changes+1
}
