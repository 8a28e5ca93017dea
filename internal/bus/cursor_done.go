package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// doneKey is the key of the events beyond the cursor's floor that are done. It is a key of its own, since earlier releases read the floor
	// as a bare number.
	doneKey = "events-done"
	// leastDone is the least number of such events that is worth a write. Fewer are handled again after a crash.
	leastDone = 64
)

// doneRecord is the value of doneKey. One slow destination keeps the floor at its oldest event. Without the record a crash would have
// every later event routed again, up to maxWindow of them for all of their Alerts.
type doneRecord struct {
	// Created is when the stream was made: the sequences of another stream mean other events.
	Created time.Time `json:"created"`
	// Floor is the sequence before that of the first bit.
	Floor uint64 `json:"floor"`
	// Done has a bit for each sequence after Floor, the lowest bit of a byte first. It is set if the event is done.
	Done []byte `json:"done"`
}

// newDoneRecord returns the record of the sequences in done that are at most maxWindow beyond the floor, and the newest of them.
func newDoneRecord(created time.Time, floor uint64, done map[uint64]struct{}) (r doneRecord, newest uint64) {
	r = doneRecord{Created: created, Floor: floor, Done: make([]byte, 0, maxWindow/8)}
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

// sequences returns the sequences that are done.
func (r doneRecord) sequences() map[uint64]struct{} {
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

// readDone reads the record of an earlier term, and remembers its revision. The record is empty if there is none or it is not understood.
func (c *cursor) readDone(ctx context.Context) (r doneRecord, err error) {
	e, err := c.kv.Get(ctx, doneKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return doneRecord{}, nil
	}
	if err != nil {
		return doneRecord{}, fmt.Errorf("read events that are done: %w", err)
	}
	c.doneRevision = e.Revision()
	if json.Unmarshal(e.Value(), &r) != nil {
		return doneRecord{}, nil // these events are handled again
	}
	return r, nil
}

// adopt takes over the events that are done by an earlier term's record. It reports whether it trusts all of it: it believes the record of
// this stream alone, and of no sequence that the stream does not have, since an event that is published later may get that sequence.
func (c *cursor) adopt(r doneRecord, info *jetstream.StreamInfo) (trusted bool) {
	c.created = info.Created
	if !r.Created.Equal(info.Created) {
		return c.doneRevision == 0
	}
	trusted = true
	for seq := range r.sequences() {
		switch {
		case seq > info.State.LastSeq:
			trusted = false
		case seq > c.floor:
			c.earlier[seq] = struct{}{}
		}
	}
	return trusted
}

// pass reports whether an earlier term has done the event of a sequence, which is the next to be handed out, and marks it as done.
func (c *cursor) pass(seq uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, done := c.earlier[seq]; !done {
		return false
	}
	c.skipTo(seq)
	delete(c.earlier, seq)
	c.next = seq + 1
	c.conclude(seq)
	return true
}

// saveDone writes which events beyond the floor are done, if they are many and there are more than at the last time. The caller holds
// saving.
func (c *cursor) saveDone(ctx context.Context) error {
	c.mu.Lock()
	concluded, floor, count := c.concluded, c.floor, len(c.done)+len(c.earlier)
	if concluded == c.savedConcluded || count < leastDone {
		c.mu.Unlock()
		return nil
	}
	done := maps.Clone(c.done)
	maps.Copy(done, c.earlier)
	c.mu.Unlock()
	record, newest := newDoneRecord(c.created, floor, done)
	if err := c.durable(ctx, newest); err != nil { // as for the floor
		return err
	}
	if err := c.writeDone(ctx, record); err != nil {
		return err
	}
	c.savedConcluded = concluded
	return nil
}

func (c *cursor) writeDone(ctx context.Context, r doneRecord) error {
	value, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode events that are done: %w", err)
	}
	revision, err := c.kv.Update(ctx, doneKey, value, c.doneRevision)
	if err != nil {
		return fmt.Errorf("write events that are done: %w", err)
	}
	c.doneRevision = revision
	return nil
}
