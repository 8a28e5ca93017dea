package bus

import (
	"maps"
	"time"
)

// cursorRecord is the value of a key of cursorKeys. One slow destination keeps the floor at its oldest event. Without Done a crash would have
// every later event routed again, up to maxWindow of them for all of their Alerts.
type cursorRecord struct {
	// Created is when the stream was made: the sequences of another stream mean other events.
	Created time.Time `json:"created"`
	Floor   uint64    `json:"floor"`
	// Done has a bit for each sequence after Floor, the lowest bit of a byte first. It is set if the event is done.
	Done []byte `json:"done,omitempty"`
	// Seen is the newest event that was read from the stream, which stored it at SeenAt. It is zero if all are from this process's memory: of
	// an embedded server's stream no event is lost that the record has.
	Seen   uint64    `json:"seen,omitzero"`
	SeenAt time.Time `json:"seenAt,omitzero"`
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

// adopt takes over the floor, and the events beyond it that are done, by the loaded record, but none after a sequence. It reports whether the
// record has none there.
func (c *cursor) adopt(last uint64) (whole bool) {
	c.done = c.loaded.sequences()
	recorded := len(c.done)
	maps.DeleteFunc(c.done, func(seq uint64, _ struct{}) bool { return seq > last })
	whole = max(c.floor, c.seen) <= last && len(c.done) == recorded
	if !whole {
		c.seen, c.changes = 0, c.changes+1
	}
	c.floor = min(c.floor, last)
	c.raise()
	c.next = c.floor + 1
	return whole
}
