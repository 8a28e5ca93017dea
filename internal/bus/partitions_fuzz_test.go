package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event"
)

// FuzzWhatIsBackloggedIsWhatWaits plays records of some namespaces, of which one has very many and one very large ones, with a handler that is
// slow, fails, and is full of a namespace at times. At each step the counts of the partitions are those of the records that are not handled, and
// the backlogged namespaces are those that are counted as full. In the end, also when that is the end of a term, nothing is counted and no
// namespace is backlogged.
//
// Fails when end counts a record with a size that it had not as it was added, or when leave leaves a backlogged namespace.
func FuzzWhatIsBackloggedIsWhatWaits(f *testing.F) {
	for seed := range uint64(10) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { playPartitions(t, seed) })
	})
}

// turns are partitions, and the records that they have.
type turns struct {
	*partitions
	mu   sync.Mutex
	rng  *rand.Rand
	seq  uint64
	open map[string]partition // what is counted of each namespace
}

func (p *turns) intN(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rng.IntN(n)
}

func (p *turns) handle(ctx context.Context) error {
	select {
	case <-time.After(time.Duration(p.intN(2000)) * time.Millisecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	if p.intN(10) == 0 {
		return errors.New("not now")
	}
	return nil
}

func (p *turns) add(c *cursor, namespace string, size int) {
	p.seq++
	r := testRecord("id", namespace, "app")
	r.Seq, r.Event.Message = p.seq, largeText[:size]
	p.partitions.add(event.Message[*event.Record]{Value: r, Seq: p.seq, Acker: c.hand(p.seq)})
	p.counted(r, 1)
}

var largeText = strings.Repeat("x", 1<<18)

func (p *turns) counted(r *event.Record, n int) {
	namespace := r.Event.InvolvedObject.Namespace
	of := p.open[namespace]
	of.waiting, of.bytes = of.waiting+n, of.bytes+n*r.Event.Size()
	p.open[namespace] = of
}

// step does what run does next, and reports whether there was anything to do.
func (p *turns) step() bool {
	select {
	case c := <-p.finished:
		for _, m := range c.batch {
			p.counted(m.Value, -1)
		}
		p.end(c)
	case <-p.look:
		p.lookAgain()
	default:
		return false
	}
	return true
}

func (p *turns) consistent(t *testing.T) {
	t.Helper()
	waiting, bytes := 0, 0
	own := p.reader.consumer.bus.backlogged
	for namespace, of := range p.open {
		waiting, bytes = waiting+of.waiting, bytes+of.bytes
		is := p.all[namespace]
		if is == nil {
			is = &partition{}
		}
		_, full := own.own[namespace]
		_, refused := own.ends[namespace]
		if is.waiting != of.waiting || is.bytes != of.bytes || is.full != full || full != refused {
			t.Errorf("%s: %+v is counted, want %+v; backlogged %t, refused %t", namespace, *is, of, full, refused)
		}
		if of.waiting == 0 && p.all[namespace] != nil {
			t.Errorf("%s is kept without records", namespace)
		}
	}
	if p.waiting != waiting || p.bytes != bytes {
		t.Errorf("%d records of %d bytes are counted, want %d of %d", p.waiting, p.bytes, waiting, bytes)
	}
}

func playPartitions(t *testing.T, seed uint64) {
	b := &Bus{backlogged: newBacklogged(), log: slog.New(slog.DiscardHandler)}
	p := &turns{rng: rand.New(rand.NewPCG(seed, 0)), open: map[string]partition{}}
	h := handlerOf(func(*event.Record) bool { return p.intN(3) == 0 }, func(ctx context.Context, _ []*event.Record) error { return p.handle(ctx) })
	h.Full = func(string) bool { return p.intN(20) == 0 }
	p.partitions = newPartitions(&eventReader{consumer: &consumer{bus: b}, handler: h})
	c := &cursor{next: 1, done: map[uint64]struct{}{}, changed: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 300 {
		switch n := p.intN(10); {
		case n == 0:
			for range p.intN(1000) {
				p.add(c, "many", p.intN(100))
			}
		case n == 1 && p.bytes < maxBufferedBytes:
			for range p.intN(20) {
				p.add(c, "large", len(largeText))
			}
		case n < 6:
			p.add(c, fmt.Sprint("team-", p.intN(20)), p.intN(1000))
		default:
			<-time.After(time.Duration(p.intN(500)) * time.Millisecond)
		}
		for p.step() {
			p.consistent(t)
		}
		p.begin(ctx)
		p.consistent(t)
	}
	if ending := seed%2 == 0; ending {
		cancel()
		p.running.Wait()
		p.leave(ctx)
	} else {
		for p.waiting > 0 {
			<-time.After(fullPause)
			for p.step() {
				p.consistent(t)
			}
			p.begin(ctx)
		}
		p.consistent(t)
		if p.queue.Len()+len(p.all)+p.alone+len(p.heavy) > 0 {
			t.Errorf("%d records, %d namespaces, %d calls, heavy %v", p.queue.Len(), len(p.all), p.alone, p.heavy)
		}
	}
	if len(b.backlogged.own)+len(b.backlogged.ends) > 0 {
		t.Errorf("%v are backlogged, and %d refused", b.backlogged.own, len(b.backlogged.ends))
	}
}
