package apply

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"notifier/internal/event"
)

// ownersBus keeps the last trigger of each key, as the stream does, and hands it out in terms that end at any moment until it is acknowledged.
// Acknowledgements, and confirmations of them, are lost until the bus is cured. A trigger that is handed out and not taken covers later webhooks.
type ownersBus struct {
	mu       sync.Mutex
	rng      *rand.Rand
	cured    bool
	seq      uint64
	messages map[item]*ownersMessage
	handed   map[item]*handed
	more     chan struct{}
	// rough has the bus behave as the real one does at its worst. queue are then the messages that the client has pulled and not yet handed
	// out, also after newer ones have taken their places on disk. inHand is the last message that may have been handed out before an
	// interruption: the acknowledgement of that ends the second one as well.
	rough  bool
	queue  []*handed
	inHand uint64
	// twice counts the messages that ended more than once.
	twice atomic.Int32
	// end ends the present term. With kill the worker loses it half a second before it learns of that.
	end func(kill bool)
}

// ownersMessage is a trigger on disk, to be handed out at due.
type ownersMessage struct {
	seq     uint64
	trigger event.Trigger
	due     time.Time
}

func newOwnersBus(seed uint64) *ownersBus {
	return &ownersBus{
		rough: seed%4 != 0, rng: rand.New(rand.NewPCG(seed, 3)),
		messages: map[item]*ownersMessage{}, handed: map[item]*handed{}, more: make(chan struct{}, 1),
	}
}

func (b *ownersBus) one(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.cured && b.rng.IntN(n) == 0
}

func (b *ownersBus) wake() {
	select {
	case b.more <- struct{}{}:
	default:
	}
}

// publish stores a trigger, unless one that is handed out covers it.
func (b *ownersBus) publish(t event.Trigger) {
	b.mu.Lock()
	defer b.mu.Unlock()
	subject := item{namespace: t.Namespace, key: t.Key}
	if h := b.handed[subject]; h != nil && h.trigger.ReceiverUID == t.ReceiverUID {
		return
	}
	b.store(subject, t)
	if b.rough && !b.cured && b.rng.IntN(10) == 0 { // the answer was lost, and it is published again
		time.AfterFunc(time.Duration(b.rng.Int64N(int64(4*time.Second))), func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.store(subject, t)
		})
	}
}

// store puts a trigger in the place of an earlier one. The caller has the lock.
func (b *ownersBus) store(subject item, t event.Trigger) {
	b.seq++
	b.messages[subject] = &ownersMessage{seq: b.seq, trigger: t}
	b.wake()
}

// reset has all messages handed out again at once, as when a consumer is taken over. The caller has the lock.
func (b *ownersBus) reset() {
	clear(b.handed)
	b.queue = nil
	for _, m := range b.messages {
		m.due = time.Time{}
	}
	b.wake()
}

// interrupt has the connection lost for a moment, within a term.
func (b *ownersBus) interrupt() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inHand = b.seq
	b.reset()
}

// Triggers implements Bus.
func (b *ownersBus) Triggers(ctx context.Context, serve func(context.Context, <-chan event.Message[event.Trigger]) error) error {
	for ctx.Err() == nil {
		term, cancel := context.WithCancel(ctx)
		var lost atomic.Bool
		var wg sync.WaitGroup
		over, in := make(chan struct{}), make(chan event.Message[event.Trigger])
		b.mu.Lock()
		if b.rough {
			b.inHand = 0
			b.reset()
		}
		b.end = func(kill bool) {
			if lost.Store(kill); kill {
				<-time.After(time.Second / 2)
			}
			cancel()
			<-over
		}
		b.mu.Unlock()
		wg.Go(func() { b.handOut(term, &lost, in) })
		err := serve(event.WithFence(term, func() bool { return !lost.Load() }), in)
		cancel()
		wg.Wait()
		b.mu.Lock()
		clear(b.handed)
		b.mu.Unlock()
		close(over)
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (b *ownersBus) handOut(ctx context.Context, lost *atomic.Bool, in chan<- event.Message[event.Trigger]) {
	for ctx.Err() == nil {
		h, wait := b.next(lost)
		if h == nil {
			select {
			case <-ctx.Done():
			case <-b.more:
			case <-time.After(wait):
			}
			continue
		}
		select {
		case <-ctx.Done():
		case in <- event.Message[event.Trigger]{Value: h.trigger, Seq: h.seq, Acker: h}:
		}
	}
}

// next returns the message that has waited longest, or the time until there is one.
func (b *ownersBus) next(lost *atomic.Bool) (h *handed, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var first *ownersMessage
	wait = time.Minute
	for _, m := range b.messages {
		if until := time.Until(m.due); until > 0 {
			wait = min(wait, until)
		} else if first == nil || m.seq < first.seq {
			first = m
		}
	}
	if lost.Load() || first == nil && len(b.queue) == 0 {
		return nil, wait
	}
	if first != nil && (len(b.queue) == 0 || b.rng.IntN(2) == 0) {
		first.due = time.Now().Add(event.AckWait)
		b.queue = append(b.queue, &handed{bus: b, lost: lost, seq: first.seq, trigger: first.trigger})
	}
	if b.rough && b.rng.IntN(2) == 0 {
		return nil, time.Duration(b.rng.IntN(20)) * time.Millisecond // it is under way
	}
	h, b.queue = b.queue[0], b.queue[1:]
	if h.seq > b.inHand {
		b.handed[h.subject()] = h
	}
	return h, 0
}

// handed is a message as it was handed out.
type handed struct {
	bus     *ownersBus
	lost    *atomic.Bool
	seq     uint64
	trigger event.Trigger
	ended   atomic.Int32
}

var errOwners = errors.New("no answer")

func (h *handed) subject() item { return item{namespace: h.trigger.Namespace, key: h.trigger.Key} }

// Take implements event.Taker.
func (h *handed) Take() {
	h.bus.mu.Lock()
	defer h.bus.mu.Unlock()
	if h.bus.handed[h.subject()] == h {
		delete(h.bus.handed, h.subject())
	}
}

// change changes the message, if it is on disk.
func (h *handed) change(change func(*ownersMessage)) {
	h.bus.mu.Lock()
	defer h.bus.mu.Unlock()
	if m := h.bus.messages[h.subject()]; m != nil && m.seq == h.seq {
		change(m)
	}
	h.bus.wake()
}

// end notes the end of the message, of which there is one at most.
func (h *handed) end() {
	if h.ended.Add(1) > 1 {
		h.bus.twice.Add(1)
	}
}

func (h *handed) Ack(ctx context.Context) error {
	h.Take()
	h.end()
	<-time.After(time.Duration(1+h.bus.draw(20)) * time.Millisecond)
	if h.bus.rough && h.bus.one(8) { // it is late
		<-time.After(time.Duration(h.bus.draw(5000)) * time.Millisecond)
	}
	if h.lost.Load() || h.bus.one(8) {
		<-ctx.Done()
		return ctx.Err()
	}
	h.change(func(*ownersMessage) { delete(h.bus.messages, h.subject()) })
	if h.bus.one(8) {
		return errOwners
	}
	return nil
}

func (h *handed) Nak() error {
	h.Take()
	h.end()
	if h.lost.Load() || h.bus.one(8) {
		return errOwners
	}
	h.change(func(m *ownersMessage) {
		m.due = time.Now()
		if h.bus.rough {
			m.due = m.due.Add(time.Second)
		}
	})
	return nil
}

func (h *handed) InProgress() error {
	if h.lost.Load() || h.bus.one(3) {
		return errOwners
	}
	h.change(func(m *ownersMessage) { m.due = time.Now().Add(event.AckWait) })
	return nil
}

func (b *ownersBus) draw(n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rng.IntN(n)
}

func (b *ownersBus) endTerm(kill bool) {
	b.mu.Lock()
	end := b.end
	b.mu.Unlock()
	end(kill)
}

func (b *ownersBus) left() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.messages)
}
