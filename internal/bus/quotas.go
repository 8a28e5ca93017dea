package bus

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/fair"
)

const (
	// quotaParts is the number of parts in which a namespace's quota is counted and given up.
	quotaParts = 16
	// maxQuotas bounds the namespaces that are counted.
	maxQuotas = 8192
	// storedOverhead is the number of bytes that the server stores of a message besides its subject and its data.
	storedOverhead = 64
	// sizeOrders are the orders of magnitude of the sizes of messages. The last has those from 64 MiB on, which no server takes.
	sizeOrders = 14
)

// quotas bound what one namespace has in a stream that discards its oldest messages: while the stream is more than half full, at most a
// namespaceShare of its budget. Beyond that the namespace's own oldest are purged, so that its flood pushes out nothing of the others
// (T6). What other processes wrote is not counted. The oldest of all is purged first when the namespace is over its quota by what this
// process wrote, unless the stream has discarded most of that already, as it does beyond the most messages of a subject.
type quotas struct {
	stream string
	budget int64

	mu sync.Mutex
	// written by namespace, as its subjects without their last token.
	written *simplelru.LRU[string, *written]
}

// written is what this process wrote for one namespace.
type written struct {
	// ends has the last sequence of each full part of the quota, the oldest part first. bytes are those of the part that is not full.
	ends  []uint64
	bytes int64
	sizes sizes
}

// sizes are the messages by the order of magnitude of their sizes, which is a power of four: how many there are, and the largest.
type sizes [sizeOrders]struct{ messages, largest uint32 }

func (s *sizes) add(size int64) {
	of := &s[min(bits.Len64(uint64(size))/2, sizeOrders-1)]
	of.messages, of.largest = of.messages+1, max(of.largest, uint32(size))
}

// most returns the most bytes that so many of the messages have.
func (s *sizes) most(messages int64) (size int64) {
	for _, of := range slices.Backward(s[:]) {
		n := min(messages, int64(of.messages))
		size, messages = size+n*int64(of.largest), messages-n
	}
	return size
}

// excess is what a namespace wrote beyond its quota: the messages up to last. sizes are of all that it wrote.
type excess struct {
	last  uint64
	sizes sizes
}

func newQuotas(stream string, budget int64) *quotas {
	return &quotas{stream: stream, budget: budget, written: fair.NewLRU[string, *written](maxQuotas)}
}

// count counts the messages that were stored. A nil quotas counts nothing.
func (q *quotas) count(msgs []*nats.Msg, out []outcome) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, m := range msgs {
		if out[i].err == nil && !out[i].ack.Duplicate {
			q.add(m.Subject[:strings.LastIndexByte(m.Subject, '.')], int64(m.Size()+storedOverhead), out[i].ack.Sequence)
		}
	}
}

func (q *quotas) add(namespace string, size int64, seq uint64) {
	w, known := q.written.Get(namespace)
	if !known {
		w = &written{}
		q.written.Add(namespace, w)
	}
	w.sizes.add(size)
	if w.bytes += size; w.bytes < q.budget/namespaceShare/quotaParts {
		return
	}
	w.bytes = 0
	if w.ends = append(w.ends, seq); len(w.ends) > namespaceShare*quotaParts {
		w.ends = w.ends[1:] // the stream has discarded that part
	}
}

// excess returns what each namespace wrote beyond its quota. The stream may have discarded it.
func (q *quotas) excess() map[string]excess {
	q.mu.Lock()
	defer q.mu.Unlock()
	over := map[string]excess{}
	for _, namespace := range q.written.Keys() {
		if w, _ := q.written.Peek(namespace); len(w.ends) > quotaParts {
			over[namespace] = excess{w.ends[len(w.ends)-quotaParts-1], w.sizes}
		}
	}
	return over
}

// forget forgets the parts of a namespace up to a sequence.
func (q *quotas) forget(namespace string, last uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w, known := q.written.Peek(namespace)
	for known && len(w.ends) > 0 && w.ends[0] <= last {
		w.ends = w.ends[1:]
	}
}

// enforceQuotas purges what namespaces have beyond their quotas in the streams that are more than half full.
func (b *Bus) enforceQuotas(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	for _, q := range b.quotas {
		if state, _ := b.stats.state(q.stream); int64(state.Bytes) <= q.budget/2 {
			continue
		}
		for namespace, over := range q.excess() {
			if err := b.purge(ctx, q, namespace, over); err != nil {
				return fmt.Errorf("purge the oldest of one namespace in %s: %w", q.stream, err)
			}
			q.forget(namespace, over.last)
		}
	}
	return nil
}

// purge purges what a namespace has beyond its quota. The number of its messages says whether it may have that much: the server does not
// count their bytes.
func (b *Bus) purge(ctx context.Context, q *quotas, namespace string, over excess) error {
	stream, subjects := b.streams[q.stream], namespace+"."+everythingElse
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(subjects))
	if err != nil {
		return err
	}
	kept := int64(0)
	for _, messages := range info.State.Subjects {
		kept += int64(messages)
	}
	if over.sizes.most(kept) <= q.budget/namespaceShare {
		return nil
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSubject(subjects), jetstream.WithPurgeSequence(over.last+1)); err != nil {
		return err
	}
	b.log.Debug("a namespace's oldest messages were purged, it has more than its quota", "stream", q.stream, "namespace", namespaceOf(namespace))
	return nil
}
