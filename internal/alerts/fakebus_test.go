package alerts

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"notifier/internal/event"
	"notifier/internal/fair"
)

// fakeBus keeps deliveries as the bus does, in a stream and on a schedule. Messages of the stream wait to be handed out, belong to a
// session, or are returned. A message that was never on the schedule represents an event with one delivery, and is dispatched. A session
// is one process's connection; it can be cut, as by kill -9. The schedule is apart from the stream, so that tens of thousands of
// scheduled messages add no cost to a message that is handed out.
type fakeBus struct {
	mu      sync.Mutex
	nextSeq uint64
	stream  []*fakeMessage // the messages off the schedule, ordered by seq
	// schedule has the scheduled messages, the first to fire on top. scheduled has the same by delivery: each has one place on it.
	schedule  fair.Heap[*fakeMessage]
	scheduled map[string]*fakeMessage
	// due are the messages that may be handed out, ordered by seq. held counts those that were handed out. Both are counted anew when the
	// first ack wait may have expired, at expires.
	due  []*fakeMessage
	held int
	// fresh are the messages of events.
	fresh   []*fakeMessage
	expires time.Time
	changed chan struct{}
	history map[string]int
	sentLog []sentAt
	// records are the events that are kept, by their order.
	records       map[uint64]*event.Record
	sent          []event.Delivery // as it was recorded
	dead          []*deadLetter
	deadCounted   deadCount
	large         largeLetters
	published     map[string]time.Time // when messages were published, by their IDs
	rescheduleLog []parkedAt
	faults        func(op string) error
	// most is the length of the longest message of an event with which the stream takes a delivery, 0 for any.
	most int
	// pause is how long the bus takes from one message to the next.
	pause time.Duration
	// late is how much later than their effect some operations are answered.
	late map[string]time.Duration
	// rough is nil for a bus at its best.
	rough *rough
	// recalls counts the deliveries that were read off the schedule.
	recalls int
	// redelivered counts the messages that were handed out again because their ack wait expired.
	redelivered int
}

// maxAckPending is how many messages the bus hands out to a shard without an outcome.
const maxAckPending = 4096

type deadLetter struct {
	d             event.Delivery
	label, reason string
	at            time.Time
	seq           uint64
}

// deadCount has the number of each Provider's letters among the first n dead letters, the last of which has a sequence.
type deadCount struct {
	n    int
	last uint64
	by   map[event.ProviderKey]int
}

type parkedAt struct {
	d  event.Delivery
	at time.Time
}

type fakeMessage struct {
	seq         uint64
	d           event.Delivery
	at          time.Time // on the schedule until then
	place       int       // in the schedule
	holder      *fakeSession
	heldUntil   time.Time
	delivered   int
	gone        bool
	returned    bool
	rescheduled bool // it is, or was, on the schedule
}

var errCut = errors.New("connection cut")

func newFakeBus() *fakeBus {
	return &fakeBus{
		changed: make(chan struct{}), history: map[string]int{}, records: map[uint64]*event.Record{}, published: map[string]time.Time{}, scheduled: map[string]*fakeMessage{},
		faults: func(string) error { return nil },
	}
}

// drop removes the n oldest dead letters, as the bus does at its bound.
func (b *fakeBus) drop(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dead = b.dead[n:]
}

// slow makes the answers to operations late, by as much.
func (b *fakeBus) slow(by time.Duration, ops ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.late = map[string]time.Duration{}
	for _, op := range ops {
		b.late[op] = by
	}
}

// answer waits until an operation is answered.
func (b *fakeBus) answer(op string) {
	b.mu.Lock()
	d := b.late[op]
	b.mu.Unlock()
	pass(d)
}

func (b *fakeBus) notify() {
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *fakeBus) add(d event.Delivery, at time.Time) {
	b.nextSeq++
	m := &fakeMessage{seq: b.nextSeq, d: d, at: at, rescheduled: !at.IsZero() || d.Reschedules > 0}
	switch {
	case !m.rescheduled:
		b.stream, b.fresh = append(b.stream, m), append(b.fresh, m)
	case at.IsZero():
		b.stream, b.due = append(b.stream, m), append(b.due, m)
	default:
		if old := b.scheduled[d.ID]; old != nil {
			if b.rough.firing(old) {
				b.fired(old) // and the new one is removed in its stead
				return
			}
			b.unschedule(old)
		}
		b.scheduled[d.ID] = m
		heap.Push(&b.schedule, m)
	}
	b.notify()
}

func (b *fakeBus) publish(ds ...event.Delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range ds {
		b.add(d, time.Time{})
	}
}

// fakeSession is a process's connection to the bus, and its ownership of the one shard.
type fakeSession struct {
	*fakeBus
	cut        bool
	takeover   uint64
	dispatcher *Deliverer
}

// session takes the shard over: the last owner's messages are handed out again at once, in stream order.
func (b *fakeBus) session() *fakeSession {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fire()
	for _, m := range b.stream {
		m.holder = nil
	}
	b.count()
	return &fakeSession{fakeBus: b, takeover: b.nextSeq}
}

// kill cuts the connection: this session's later calls do not reach the bus.
func (s *fakeSession) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = true
	s.notify()
}

// fire turns each message whose time has come into a new message at the end of the stream.
func (b *fakeBus) fire() {
	for now := time.Now(); len(b.schedule) > 0 && !b.fires().After(now); {
		b.fired(b.schedule[0])
	}
}

// fires returns when the first message fires.
func (b *fakeBus) fires() time.Time { return b.schedule[0].at.Add(b.rough.lateness()) }

// fired fires a message of the schedule.
func (b *fakeBus) fired(m *fakeMessage) {
	b.unschedule(m)
	b.nextSeq++
	m.seq, m.at, m.delivered = b.nextSeq, time.Time{}, 0
	b.stream, b.due = append(b.stream, m), append(b.due, m)
	b.notify()
}

// remove takes a message off the stream.
func (b *fakeBus) remove(m *fakeMessage) {
	i, _ := slices.BinarySearchFunc(b.stream, m.seq, func(x *fakeMessage, seq uint64) int { return cmp.Compare(x.seq, seq) })
	b.stream = slices.Delete(b.stream, i, i+1)
}

// count computes due and held.
func (b *fakeBus) count() {
	now := time.Now()
	b.due, b.fresh, b.held, b.expires = nil, nil, 0, time.Time{}
	for _, m := range b.stream {
		if !m.rescheduled {
			if m.holder == nil {
				b.fresh = append(b.fresh, m)
			}
			continue
		}
		if m.holder == nil || !m.heldUntil.After(now) {
			b.due = append(b.due, m)
		} else {
			b.hold(m)
		}
	}
}

func (b *fakeBus) hold(m *fakeMessage) {
	b.held++
	if b.expires.IsZero() || m.heldUntil.Before(b.expires) {
		b.expires = m.heldUntil
	}
}

// take hands out the first due message, or returns when to look again.
func (s *fakeSession) take() (*fakeMessage, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fire()
	now := time.Now()
	if !s.expires.IsZero() && !s.expires.After(now) {
		s.count()
	}
	if s.cut || len(s.due) == 0 || s.held >= maxAckPending {
		again := now.Add(time.Hour)
		if !s.expires.IsZero() && s.expires.Before(again) {
			again = s.expires
		}
		if len(s.schedule) > 0 && s.fires().Before(again) {
			again = s.fires()
		}
		return nil, again
	}
	best := s.due[0]
	s.due = s.due[1:]
	if best.holder == s && now.Sub(best.heldUntil) < time.Second && !best.returned {
		s.redelivered++
	}
	best.returned = false
	best.holder, best.heldUntil = s, now.Add(event.AckWait)
	best.delivered++
	s.hold(best)
	return best, time.Time{}
}

func (s *fakeSession) Deliveries(
	ctx context.Context, serve func(context.Context, int, <-chan event.Message[event.Delivery]) error,
) error {
	in := make(chan event.Message[event.Delivery])
	ended := make(chan struct{})
	var feeds sync.WaitGroup
	feeds.Go(func() { s.feed(ctx, ended, in) })
	feeds.Go(func() { s.dispatch(ctx) })
	err := serve(ctx, 0, in)
	close(ended)
	feeds.Wait()
	return err
}

// dispatch hands out the deliveries of events in order, and reports when those from before the takeover are dispatched.
func (s *fakeSession) dispatch(ctx context.Context) {
	var caught atomic.Bool
	s.dispatcher.Begin(func(string) bool { return !caught.Load() })
	for ctx.Err() == nil {
		s.mu.Lock()
		batch := s.takeFresh()
		old, changed := slices.ContainsFunc(s.fresh, func(m *fakeMessage) bool { return m.seq <= s.takeover }), s.changed
		s.mu.Unlock()
		if s.pause > 0 {
			pass(s.pause)
		}
		if len(batch) > 0 && s.dispatcher.Dispatch(ctx, batch) != nil {
			return
		}
		if !old && !caught.Swap(true) {
			s.dispatcher.CaughtUp(ctx)
		}
		if len(batch) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}

// takeFresh takes the next deliveries of events.
func (s *fakeSession) takeFresh() (batch []event.Message[event.Delivery]) {
	if s.cut {
		return nil
	}
	most := 64
	if s.pause > 0 {
		most = 1
	}
	for _, m := range s.fresh[:min(len(s.fresh), most)] {
		m.holder = s
		m.delivered++
		d := m.d
		d.Recheck = d.Recheck || m.delivered > 1 || m.seq <= s.takeover
		batch = append(batch, event.Message[event.Delivery]{Value: d, Seq: m.seq, Acker: &fakeHold{s, m, m.seq, m.delivered}})
	}
	s.fresh = s.fresh[len(batch):]
	return batch
}

func (s *fakeSession) feed(ctx context.Context, ended chan struct{}, in chan<- event.Message[event.Delivery]) {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		m, again := s.take()
		if m == nil {
			select {
			case <-ctx.Done():
				return
			case <-ended:
				return
			case <-changed:
			case <-time.After(max(time.Until(again), 1)): // see pass
			}
			continue
		}
		if s.pause > 0 {
			pass(s.pause)
		}
		d := m.d
		d.Recheck = d.Recheck || m.delivered > 1 || m.seq <= s.takeover || s.rough != nil
		held := &fakeHold{session: s, message: m, seq: m.seq, delivered: m.delivered}
		select {
		case in <- event.Message[event.Delivery]{Value: d, Seq: m.seq, Acker: held}:
		case <-ended:
			_ = held.Nak()
			return
		case <-ctx.Done():
			_ = held.Nak()
			return
		}
	}
}

// unscheduled counts the messages that are not on the schedule.
func (b *fakeBus) unscheduled() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.stream)
}

// left counts all messages.
func (b *fakeBus) left() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.stream) + len(b.schedule)
}

func (b *fakeBus) empty() bool { return b.left() == 0 }

func (b *fakeBus) deadLetters() []*deadLetter {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.dead)
}
