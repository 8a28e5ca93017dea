package bus

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// FuzzWhatRecentKeepsIsWhatReadersMayRead plays readers that come, fall behind, read the stream meanwhile, and go, while this process publishes
// records of any size among those of others. At each step the bytes are those of the kept records, each in its place, and none that all readers
// have read; a reader gets its next ones without a gap. Fails when forget drops no records from so long ago that others have their places.
func FuzzWhatRecentKeepsIsWhatReadersMayRead(f *testing.F) {
	for seed := range uint64(10) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		rng, text := rand.New(rand.NewPCG(seed, 0)), strings.Repeat("x", 1<<18)
		c, next := newRecent(), uint64(1+rng.IntN(2*recentRecords))
		readers := map[*recentReader]func(){}
		for range 200 {
			switch rng.IntN(8) {
			case 0:
				if len(readers) < 3 {
					r, stop := c.watch(next-min(next-1, uint64(rng.IntN(10))), rng.IntN(2) == 0)
					readers[r] = stop
				}
			case 1: // others publish
				next += uint64([]int{1, 10, 3 * recentRecords}[rng.IntN(3)])
				c.note(next - 1)
			case 2:
				for r, stop := range readers {
					stop()
					delete(readers, r)
					break
				}
			case 3, 4:
				for r := range readers {
					c.readSome(t, r, rng.IntN(2) == 0, next-1)
				}
			default:
				for range 1 + rng.IntN(100) {
					r := testRecord("id", "team", "app")
					r.Seq, r.Event.Message = next, text[:[]int{0, 1 << 10, 1 << 18}[rng.IntN(3)]]
					if rng.IntN(20) > 0 { // else its answer is lost
						c.put(r)
					}
					next++
				}
				c.announce()
				c.note(next - 1)
			}
			for _, found := range c.inconsistencies() {
				t.Fatal(found)
			}
		}
	})
}

// readSome has a reader read the next records, from the stream or as far as they are kept.
func (c *recent) readSome(t *testing.T, r *recentReader, stream bool, last uint64) {
	if stream {
		c.advance(r, last+1)
	}
	found, _ := c.take(r, r.next, 100)
	for i, record := range found {
		if record.Seq != r.next+uint64(i) {
			t.Fatalf("the record %d is read for %d", record.Seq, r.next+uint64(i))
		}
	}
	c.advance(r, r.next+uint64(len(found)))
}

func (c *recent) inconsistencies() (found []string) {
	bytes := 0
	for i, r := range c.records {
		if r == nil {
			continue
		}
		bytes += r.Event.Size()
		if r.Seq%recentRecords != uint64(i) || r.Seq < c.first {
			found = append(found, fmt.Sprintf("the record %d is at %d, and those before %d are not kept", r.Seq, i, c.first))
		}
	}
	if bytes != c.bytes || bytes > recentBytes {
		found = append(found, fmt.Sprintf("%d bytes are counted, of %d", c.bytes, bytes))
	}
	return found
}
