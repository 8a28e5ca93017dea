package bus

import (
	"strings"
	"testing"
)

// Fails when records stay in memory though all readers have read them, or are dropped though one has not.
func TestARecordIsDroppedWhenAllReadersHaveReadIt(t *testing.T) {
	c := newRecent()
	put := func(seq uint64) {
		r := testRecord("id", "team", "app")
		r.Seq = seq
		c.put(r)
		c.announce()
	}
	const from = 1 << 40 // a stream is never read from its beginning
	fast, _ := c.watch(from, true)
	slow, stopSlow := c.watch(from, true)
	for seq := range uint64(10) {
		put(from + seq)
	}
	if found, _ := c.take(fast, from, 100); len(found) != 10 {
		t.Fatalf("the first reader gets %d of 10 records", len(found))
	}
	c.take(fast, from+10, 100)
	if found, _ := c.take(slow, from, 100); len(found) != 10 {
		t.Errorf("the second reader gets %d of 10 records", len(found))
	}
	c.take(slow, from+4, 100)
	if found, _ := c.take(slow, from+4, 100); len(found) != 6 {
		t.Errorf("the second reader gets %d of the last 6 records", len(found))
	}
	stopSlow()
	c.take(fast, from+10, 100)
	put(from + 9) // its publisher was late, and it was read from the stream
	if c.bytes != 0 {
		t.Errorf("%d bytes stay when all was read", c.bytes)
	}
	put(from + 10)
	if found, _ := c.take(fast, from+10, 100); len(found) != 1 {
		t.Errorf("%d records after that", len(found))
	}
}

// Fails when a replica that becomes the worker still has the records that it published before others published very many: there is no room for
// those that it publishes from then on, and its reader reads them from the stream.
func TestRecordsOfLongAgoLeaveRoomForNewOnes(t *testing.T) {
	c, seq := newRecent(), uint64(1<<40)
	put := func(n int) {
		for range n {
			r := testRecord("id", "team", "app")
			r.Seq, r.Event.Message = seq, strings.Repeat("x", recentBytes/100)
			c.put(r)
			seq++
		}
		c.announce()
	}
	put(99)
	seq += 2*recentRecords + 100
	c.note(seq - 1)
	reader, stop := c.watch(seq, true)
	defer stop()
	c.take(reader, seq, 100)
	put(10)
	if found, _ := c.take(reader, seq-10, 100); len(found) != 10 {
		t.Errorf("of 10 records %d are kept, beside %d bytes", len(found), c.bytes)
	}
}
