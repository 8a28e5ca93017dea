package bus

import (
	"context"
	"fmt"
	"math"
	"slices"
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
	// maxQuotaSubjects bounds the subjects of a namespace that are counted each. The others are counted as one, of which any message may be
	// among the kept ones.
	maxQuotaSubjects = 128
	// storedOverhead is the number of bytes that the server stores of a message besides its subject and its data.
	storedOverhead = 64
)

// quotas bound what one namespace has in a stream that discards its oldest messages: while the stream is more than half full, at most a
// namespaceShare of its budget. Beyond that the namespace's own oldest are purged, so that its flood pushes out nothing of the others
// (T6). What other processes wrote is not counted. The oldest of all is purged first when the namespace is over its quota by what this
// process wrote, unless the stream has discarded most of that already, as it does beyond its bound on the messages of a subject.
type quotas struct {
	stream string
	budget int64
	// bySubject says that the stream bounds the messages of each subject, so the messages of each are counted.
	bySubject bool

	mu sync.Mutex
	// written by namespace, as the beginning of its subjects.
	written *simplelru.LRU[string, *written]
}

// written is what this process wrote for one namespace.
type written struct {
	// ends has the last sequence of each full part of the quota, the oldest part first. bytes are those of the part that is not full.
	ends     []uint64
	bytes    int64
	subjects map[string]*parts
	others   parts // of the subjects that are not counted each
}

// parts are the newest messages of a subject, the oldest part first. The stream discards the oldest of a subject first.
type parts []part

type part struct {
	first                    uint64 // sequence
	messages, bytes, largest int64
}

// add adds a message, to the newest part unless that has so many bytes.
func (p *parts) add(size int64, seq uint64, full int64) {
	if n := len(*p); n == 0 || (*p)[n-1].bytes >= full {
		*p = append((*p)[max(0, n-quotaParts):], part{first: seq})
	}
	newest := &(*p)[len(*p)-1]
	newest.messages, newest.bytes, newest.largest = newest.messages+1, newest.bytes+size, max(newest.largest, size)
}

// most returns the most bytes that so many of the newest messages have.
func (p parts) most(messages int64) (size int64) {
	for _, of := range slices.Backward(p) {
		n := min(messages, of.messages)
		size, messages = size+min(of.bytes, n*of.largest), messages-n
	}
	return size
}

// newQuotas returns the quotas in the stream of a configuration.
func newQuotas(c jetstream.StreamConfig) *quotas {
	return &quotas{stream: c.Name, budget: c.MaxBytes, bySubject: c.MaxMsgsPerSubject > 0, written: fair.NewLRU[string, *written](maxQuotas)}
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
			q.add(m.Subject, int64(m.Size()+storedOverhead), out[i].ack.Sequence)
		}
	}
}

func (q *quotas) add(subject string, size int64, seq uint64) {
	namespace, full := withinNamespace(subject), q.budget/namespaceShare/quotaParts
	w, known := q.written.Get(namespace)
	if !known {
		w = &written{subjects: map[string]*parts{}}
		q.written.Add(namespace, w)
	}
	of, known := w.subjects[subject]
	switch {
	case !q.bySubject:
	case known:
		of.add(size, seq, full)
	case len(w.subjects) < maxQuotaSubjects:
		w.subjects[subject] = &parts{{seq, 1, size, size}}
	default:
		w.others.add(size, seq, math.MaxInt64)
	}
	if w.bytes += size; w.bytes < full {
		return
	}
	w.bytes = 0
	if w.ends = append(w.ends, seq); len(w.ends) > namespaceShare*quotaParts {
		w.ends = w.ends[1:] // the stream has discarded that part
	}
}

// excess returns the last sequence of what each namespace wrote beyond its quota, in whole parts up to a sequence. The stream may have
// discarded it.
func (q *quotas) excess(upTo uint64) map[string]uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	over := map[string]uint64{}
	for _, namespace := range q.written.Keys() {
		w, _ := q.written.Peek(namespace)
		for _, end := range w.ends[:max(0, len(w.ends)-quotaParts)] {
			if end <= upTo {
				over[namespace] = end
			}
		}
	}
	return over
}

// most returns the greatest size, in bytes, of the messages of a namespace. kept is how many it has of each subject.
func (q *quotas) most(namespace string, kept map[string]uint64) (size int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w, known := q.written.Peek(namespace)
	if !known {
		return 0
	}
	others := int64(0)
	for subject, messages := range kept {
		if of := w.subjects[subject]; of != nil {
			size += of.most(int64(messages))
		} else {
			others += int64(messages)
		}
	}
	return size + w.others.most(others)
}

// removed counts that a message was removed on request, which need not be the oldest of its subject.
func (q *quotas) removed(subject string, seq uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w, known := q.written.Peek(withinNamespace(subject))
	if !known || w.subjects[subject] == nil {
		return
	}
	of := *w.subjects[subject]
	for i := range slices.Backward(of) {
		if seq >= of[i].first {
			of[i].messages = max(0, of[i].messages-1)
			return
		}
	}
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

// enforceQuotas purges what namespaces have beyond their quotas in the streams that are more than half full, and of EVENTS only what was
// handled (E2).
func (b *Bus) enforceQuotas(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	for _, q := range b.quotas {
		if state, _ := b.stats.state(q.stream); int64(state.Bytes) <= q.budget/2 {
			continue
		}
		upTo := uint64(math.MaxUint64)
		if q.stream == streamEvents {
			upTo = b.stats.handled()
		}
		for namespace, last := range q.excess(upTo) {
			if err := b.purge(ctx, q, namespace, last); err != nil {
				return fmt.Errorf("purge the oldest of one namespace in %s: %w", q.stream, err)
			}
			q.forget(namespace, last)
		}
	}
	return nil
}

// purge purges what a namespace has up to a sequence, if it has more than its quota. In a stream that bounds the messages of each subject, the
// number of its messages of each says how much that is: the server does not count their bytes.
func (b *Bus) purge(ctx context.Context, q *quotas, namespace string, last uint64) error {
	stream, subjects := b.streams[q.stream], namespace+"."+everythingElse
	if q.bySubject {
		info, err := stream.Info(ctx, jetstream.WithSubjectFilter(subjects))
		if err != nil {
			return err
		}
		if q.most(namespace, info.State.Subjects) <= q.budget/namespaceShare {
			return nil
		}
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSubject(subjects), jetstream.WithPurgeSequence(last+1)); err != nil {
		return err
	}
	b.log.Debug("a namespace's oldest messages were purged, it has more than its quota", "stream", q.stream, "namespace", namespaceOf(namespace))
	return nil
}
