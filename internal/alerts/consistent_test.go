package alerts

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"notifier/internal/event"
	"notifier/internal/fair"
)

// consistent fails the test unless the counts and indexes of each shard are those of its deliveries. It asks the shards' loops, and so sees them
// between two steps.
func consistent(t *testing.T, d *Deliverer) {
	t.Helper()
	for _, s := range d.shards.all() {
		done := make(chan []string, 1)
		if s.call(t.Context(), func(context.Context) { done <- s.inconsistencies() }) {
			for _, found := range <-done {
				t.Error(found)
			}
		}
	}
}

func (s *shard) inconsistencies() (found []string) {
	wrong := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	equal := func(of string, is, want int) {
		if is != want {
			wrong("%s: %d, want %d", of, is, want)
		}
	}
	items, bytes, reads := 0, int64(0), 0
	shares := map[*share]*tally{}
	for key, q := range s.queues {
		all := q.tally(key, wrong)
		of := func(what string) string { return fmt.Sprintf("%s of %s/%s", what, key.Namespace, key.Provider) }
		equal(of("entries"), q.entries, all.entries)
		equal(of("entries to be given up"), q.givenUp, all.givenUp)
		equal(of("unknown entries"), q.unknown, all.unknown)
		equal(of("unlearned entries"), q.unlearned, all.unlearned)
		equal(of("KiB"), int(q.kib), all.kib)
		equal(of("waiting items"), len(q.waiting), all.waiting)
		if q.inflight > all.sending {
			wrong("%s: %d, of %d that are busy", of("sends"), q.inflight, all.sending)
		}
		if q.recalls < all.recalling {
			wrong("%s: %d, of %d entries", of("reads"), q.recalls, all.recalling)
		}
		for o, n := range q.owners {
			equal(of("entries of "+o.alert), n.pending, all.owners[n])
		}
		if !slices.IsSortedFunc(q.waiting, compareItems) {
			wrong("%s are not in order", of("waiting items"))
		}
		equal(of("recallable lines"), q.recallable.len(), all.recallable)
		sum := shares[q.share]
		if sum == nil {
			sum = &tally{}
			shares[q.share] = sum
		}
		sum.add(all)
		items, bytes, reads = items+all.items, bytes+all.bytes, reads+q.recalls
		if q.wakeIndex != fair.NotInHeap && s.wakes.Heap[q.wakeIndex] != q {
			wrong("%s is in the wrong place", of("wake"))
		}
	}
	equal("items", len(s.items), items)
	for sh, sum := range shares {
		n, size := s.shards.keptEarly(sh)
		sum.items, sum.bytes = sum.items+n, sum.bytes+size
		equal("entries of the share", int(sh.deliveries.Load()), sum.entries)
		equal("Providers of the share", int(sh.providers.Load()), sum.providers)
		equal("entries of the share to be given up", int(sh.givenUp.Load()), sum.givenUp)
		equal("KiB of the share", int(sh.kib.Load()), sum.kib)
		equal("items of the share", int(sh.held.Load()), sum.items)
		if reads == 0 {
			equal("bytes of the share", int(sh.heldBytes.Load()), int(sum.bytes))
		}
	}
	equal("bytes", int(s.heldBytes.Load()), int(bytes))
	for key, n := range s.dead.changes {
		if n < 0 {
			wrong("changes of the dead letters of %s: %d", key.Provider, n)
		}
	}
	return found
}

// keptEarly returns what is kept for shards that are not served, of a namespace.
func (v *serving) keptEarly(sh *share) (n int, bytes int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, kept := range v.early {
		for _, e := range kept {
			for i := range e.batch {
				if d := &e.batch[i].Value; v.shares.of[d.Namespace] == sh {
					n, bytes = n+1, bytes+int64(d.Event.Size())
				}
			}
		}
	}
	return n, bytes
}

// tally has what is counted of a queue's lines.
type tally struct {
	entries, givenUp, unknown, unlearned, kib, waiting, sending, recalling, recallable, items, providers int
	bytes                                                                                                int64
	owners                                                                                               map[*ownerCount]int
}

func (c *tally) add(other tally) {
	c.entries += other.entries
	c.givenUp += other.givenUp
	c.kib += other.kib
	c.items += other.items
	c.bytes += other.bytes
	c.providers += min(1, other.entries)
}

func (q *queue) tally(key event.ProviderKey, wrong func(string, ...any)) tally {
	c := tally{owners: map[*ownerCount]int{}}
	for object, l := range q.lines {
		if len(l.entries) == 0 {
			wrong("an empty line of %s", object)
			continue
		}
		if !slices.IsSortedFunc(l.entries, func(x, y *entry) int { return comparePlaces(x.order, x.id, y.order, y.id) }) {
			wrong("the line of %s is not in order", object)
		}
		if l.next != l.candidate() {
			wrong("the entry to recall of %s is not the first", object)
		}
		if l.next != nil {
			c.recallable++
			if l.rank != l.next.rank || l.recallIndex >= len(q.recallable[l.rank]) || q.recallable[l.rank][l.recallIndex] != l {
				wrong("the line of %s is in the wrong place", object)
			}
		}
		for _, e := range l.entries {
			c.entry(key, q, l, e, wrong)
		}
	}
	return c
}

func (c *tally) entry(key event.ProviderKey, q *queue, l *line, e *entry, wrong func(string, ...any)) {
	c.entries++
	c.kib += int(e.kib)
	if e.givenUp != causeNone {
		c.givenUp++
	} else if e.rank == rankUnknown {
		c.unknown++
	}
	if e.recalling {
		c.recalling++
	}
	if e.owner == nil {
		c.unlearned++
	} else {
		c.owners[e.owner]++
	}
	it := e.item
	if it == nil {
		return
	}
	c.items++
	c.bytes += it.bytes()
	if it.entry != e || it.line != l || it.queue != q || it.d.ID != e.id || it.d.Provider != key.Provider {
		wrong("the item of %d belongs to %s", e.order, it.d.ID)
	}
	if it.busy {
		c.sending++
	} else {
		c.waiting++
	}
	if e.onSchedule {
		wrong("%d is in memory and waits on the schedule", e.order)
	}
}

func (r *linesByRank) len() (n int) {
	for _, lines := range r {
		n += len(lines)
	}
	return n
}
