package alerts

import "context"

// leaving is an item that leaves memory without a send, by a verdict.
type leaving struct {
	it   *item
	dest *Destination
	v    verdict
}

func (l leaving) namespace() string { return l.it.queue.key.namespace }

// putAway carries out a verdict that needs no send.
func (s *shard) putAway(work context.Context, it *item, dest *Destination, v verdict) {
	it.queue.dequeue(it)
	it.busy = true
	if v.action == toDeadLetters {
		s.dead.changing(it.queue.key, 1)
	}
	s.leaving.Push(leaving{it, dest, v})
	s.write(work)
}

// staying returns how many items are in memory, without those that leave it.
func (s *shard) staying() int { return len(s.items) - s.leaving.Len() - s.writing }

// write begins the writes of items that leave. There may be very many: one event is for each of a namespace's Alerts. So the others wait
// without a goroutine, and namespaces take turns.
func (s *shard) write(work context.Context) {
	for s.writing < writers && s.leaving.Len() > 0 {
		l := s.leaving.Pop()
		s.writing++
		s.spawnFor(func() func() {
			end := s.conclude(work, l.it, l.dest, l.v)
			return func() {
				s.writing--
				end()
				s.write(work)
			}
		})
	}
}
