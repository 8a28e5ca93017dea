package alerts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"notifier/internal/event"
)

// fakeBus keeps deliveries as the bus does: a stream in which messages wait to be handed out, are held by a session or come
// back, and a schedule. A session is one process's connection; it can be cut, as by kill -9.
type fakeBus struct {
	mu      sync.Mutex
	nextSeq uint64
	stream  []*fakeMessage // ordered by seq
	// due are the messages that may be handed out, ordered by seq, and held counts those that were. They are counted anew when
	// the first hold may have run out, at expires; fires is no later than the first schedule that fires.
	due            []*fakeMessage
	held           int
	expires, fires time.Time
	changed        chan struct{}
	history        map[string]int
	dead           []deadLetter
	parks          map[string]int // by ID#Parks
	parkLog        []parkedAt
	faults         func(op string) error
	// pause is how long the bus takes from one message to the next.
	pause time.Duration
	// redelivered counts what was handed out again because its hold ran out.
	redelivered int
}

// maxAckPending is how many messages the bus lets a shard hold.
const maxAckPending = 4096

type deadLetter struct {
	d             event.Delivery
	label, reason string
}

type parkedAt struct {
	d  event.Delivery
	at time.Time
}

type fakeMessage struct {
	seq       uint64
	d         event.Delivery
	at        time.Time // on the schedule until then
	holder    *fakeSession
	heldUntil time.Time
	delivered int
	gone      bool
	returned  bool
}

var errCut = errors.New("connection cut")

func newFakeBus() *fakeBus {
	return &fakeBus{
		changed: make(chan struct{}), history: map[string]int{}, parks: map[string]int{},
		faults: func(string) error { return nil },
	}
}

func (b *fakeBus) notify() {
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *fakeBus) add(d event.Delivery, at time.Time) {
	b.nextSeq++
	m := &fakeMessage{seq: b.nextSeq, d: d, at: at}
	b.stream = append(b.stream, m)
	switch {
	case at.IsZero():
		b.due = append(b.due, m)
	case b.fires.IsZero() || at.Before(b.fires):
		b.fires = at
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

// fakeSession is a process's connection to the bus and its ownership of the one shard.
type fakeSession struct {
	*fakeBus
	cut      bool
	takeover uint64
}

// session takes the shard over: what the last owner held is handed out again at once, in stream order.
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

// kill cuts the connection: nothing of this session reaches the bus any more.
func (s *fakeSession) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = true
	s.notify()
}

// fire makes each schedule whose time has come a new message at the end of the stream.
func (b *fakeBus) fire() {
	now := time.Now()
	if b.fires.IsZero() || b.fires.After(now) {
		return
	}
	b.fires = time.Time{}
	var fired []*fakeMessage
	for _, m := range b.stream {
		switch {
		case m.at.IsZero():
		case !m.at.After(now):
			fired = append(fired, m)
		case b.fires.IsZero() || m.at.Before(b.fires):
			b.fires = m.at
		}
	}
	slices.SortStableFunc(fired, func(x, y *fakeMessage) int { return x.at.Compare(y.at) })
	for _, m := range fired {
		b.nextSeq++
		b.remove(m)
		m.seq, m.at, m.delivered = b.nextSeq, time.Time{}, 0
		b.stream, b.due = append(b.stream, m), append(b.due, m)
	}
}

// remove takes a message off the stream.
func (b *fakeBus) remove(m *fakeMessage) {
	i, _ := slices.BinarySearchFunc(b.stream, m.seq, func(x *fakeMessage, seq uint64) int { return cmp.Compare(x.seq, seq) })
	b.stream = slices.Delete(b.stream, i, i+1)
}

// count finds out what is due and what is held.
func (b *fakeBus) count() {
	now := time.Now()
	b.due, b.held, b.expires = nil, 0, time.Time{}
	for _, m := range b.stream {
		switch {
		case !m.at.IsZero():
		case m.holder == nil || !m.heldUntil.After(now):
			b.due = append(b.due, m)
		default:
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

// take hands out the first message that may be, or returns when to look again.
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
		for _, t := range []time.Time{s.expires, s.fires} {
			if !t.IsZero() && t.Before(again) {
				again = t
			}
		}
		return nil, again
	}
	best := s.due[0]
	s.due = s.due[1:]
	if best.holder == s && now.Sub(best.heldUntil) < time.Second && !best.returned {
		s.redelivered++
	}
	best.returned = false
	best.holder, best.heldUntil = s, now.Add(event.HoldTime)
	best.delivered++
	s.hold(best)
	return best, time.Time{}
}

func (s *fakeSession) Deliveries(
	ctx context.Context, serve func(context.Context, int, <-chan event.Held[event.Delivery]) error,
) error {
	in := make(chan event.Held[event.Delivery])
	ended := make(chan struct{})
	var feed sync.WaitGroup
	feed.Go(func() { s.feed(ctx, ended, in) })
	err := serve(ctx, 0, in)
	close(ended)
	feed.Wait()
	return err
}

func (s *fakeSession) feed(ctx context.Context, ended chan struct{}, in chan<- event.Held[event.Delivery]) {
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
			case <-time.After(time.Until(again)):
			}
			continue
		}
		if s.pause > 0 {
			pass(s.pause)
		}
		d := m.d
		d.Recheck = d.Recheck || m.delivered > 1 || m.seq <= s.takeover
		held := &fakeHold{session: s, message: m, seq: m.seq, delivered: m.delivered}
		select {
		case in <- event.Held[event.Delivery]{Value: d, Settler: held}:
		case <-ended:
			_ = held.Return()
			return
		case <-ctx.Done():
			_ = held.Return()
			return
		}
	}
}

// fakeHold is one handing out of a message.
type fakeHold struct {
	session   *fakeSession
	message   *fakeMessage
	seq       uint64
	delivered int
}

func (h *fakeHold) live() bool {
	return !h.session.cut && h.message.seq == h.seq && !h.message.gone
}

func (h *fakeHold) Done(context.Context) error {
	b := h.session.fakeBus
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.faults("done"); err != nil {
		return err
	}
	if h.session.cut {
		return errCut
	}
	if h.live() {
		h.message.gone = true
		b.remove(h.message)
		if slices.Contains(b.due, h.message) { // its hold had run out
			b.count()
		} else {
			b.held--
		}
		b.notify()
	}
	return nil
}

func (h *fakeHold) Working() error {
	b := h.session.fakeBus
	b.mu.Lock()
	defer b.mu.Unlock()
	if h.live() {
		h.message.heldUntil = time.Now().Add(event.HoldTime)
	}
	return nil
}

func (h *fakeHold) Return() error {
	b := h.session.fakeBus
	b.mu.Lock()
	defer b.mu.Unlock()
	if h.live() && h.message.holder == h.session {
		h.message.heldUntil, h.message.returned = time.Now(), true
		b.expires = time.Now()
		b.notify()
	}
	return nil
}

// Backlog tells what is on the schedule and what is due.
func (s *fakeSession) Backlog(context.Context, int) (event.Backlog, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut {
		return event.Backlog{}, errCut
	}
	var backlog event.Backlog
	for _, m := range s.stream {
		if m.at.IsZero() {
			backlog.Due++
			continue
		}
		backlog.Parked = append(backlog.Parked, event.Parked{
			ID: m.d.ID, Order: m.d.Order, Namespace: m.d.Namespace, Provider: m.d.Provider,
			ObjectKey: event.ObjectKey(m.d.Object()),
		})
	}
	return backlog, nil
}

// op is a write that reaches the bus unless the session is cut or a fault is injected.
func (s *fakeSession) op(name string, write func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut {
		return errCut
	}
	if err := s.faults(name); err != nil {
		return err
	}
	write()
	return nil
}

func (s *fakeSession) Park(_ context.Context, d *event.Delivery, at time.Time) error {
	return s.op("park", func() {
		key := fmt.Sprintf("%s#%d", d.ID, d.Parks)
		if s.parks[key]++; s.parks[key] == 1 {
			s.parkLog = append(s.parkLog, parkedAt{*d, at})
			s.add(*d, at)
		}
	})
}

func (s *fakeSession) DeadLetter(_ context.Context, d *event.Delivery, label, reason string) error {
	return s.op("deadletter", func() { s.dead = append(s.dead, deadLetter{*d, label, reason}) })
}

func (s *fakeSession) Sent(_ context.Context, d *event.Delivery) error {
	return s.op("sent", func() { s.history[d.ID]++ })
}

func (s *fakeSession) WasSent(_ context.Context, d *event.Delivery) (sent bool, err error) {
	err = s.op("wassent", func() { sent = s.history[d.ID] > 0 })
	return sent, err
}

// unscheduled counts the messages that are not on the schedule.
func (b *fakeBus) unscheduled() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.stream {
		if m.at.IsZero() {
			n++
		}
	}
	return n
}

func (b *fakeBus) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.stream) == 0
}

func (b *fakeBus) deadLetters() []deadLetter {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.dead)
}

func (b *fakeBus) parkings() []parkedAt {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.parkLog)
}
