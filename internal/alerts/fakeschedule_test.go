package alerts

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"notifier/internal/event"
)

// Before orders the messages on the schedule, the first to fire on top. Among equal times, the one stored first is first.
func (m *fakeMessage) Before(other *fakeMessage) bool {
	if c := m.at.Compare(other.at); c != 0 {
		return c < 0
	}
	return m.seq < other.seq
}

func (m *fakeMessage) Index() *int { return &m.place }

// unschedule takes a message off the schedule.
func (b *fakeBus) unschedule(m *fakeMessage) {
	heap.Remove(&b.schedule, m.place)
	delete(b.scheduled, m.d.ID)
}

// Backlog lists the deliveries on the schedule and those that have come off it.
func (s *fakeSession) Backlog(context.Context, int) ([]event.Scheduled, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut {
		return nil, errCut
	}
	var backlog []event.Scheduled
	list := func(ms []*fakeMessage) {
		for _, m := range ms {
			if m.rescheduled {
				backlog = append(backlog, event.Scheduled{
					ID: m.d.ID, Order: m.d.Order, Namespace: m.d.Namespace, Provider: m.d.Provider,
					ObjectKey: event.ObjectKey(m.d.Object()), Due: m.at.IsZero(),
				})
			}
		}
	}
	list(s.schedule)
	for s.rough != nil && len(s.schedule) > 0 && s.rough.rng.IntN(2) == 0 && time.Until(s.schedule[0].at) < time.Second {
		s.fired(s.schedule[0]) // its time comes now, so that it is listed twice
	}
	list(s.stream)
	return backlog, nil
}

func (s *fakeSession) DeliveryShard(string, string) int { return 0 }

func (s *fakeSession) Quota() (deliveries int, bytes int64) { return math.MaxInt, math.MaxInt64 }

// Recall reads a message of the schedule.
func (s *fakeSession) Recall(_ context.Context, _ int, p event.Scheduled) (r event.Recalled, err error) {
	err = s.op("recall", func() {
		s.recalls++
		s.fire()
		if m := s.scheduled[p.ID]; m != nil {
			r = event.Recalled{At: m.at, Held: event.Message[event.Delivery]{Value: s.large.read(m.d), Acker: &fakeScheduled{s, m, m.seq}}}
			return
		}
		r.Due = slices.ContainsFunc(s.stream, func(m *fakeMessage) bool { return m.d.ID == p.ID && m.rescheduled })
	})
	s.large.measure()
	s.answer("recall")
	return r, err
}

// stuck returns the messages that are on the schedule for hours, and of which no record says that they were sent.
func (b *fakeBus) stuck() (stuck []*fakeMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.schedule {
		id := m.d.ID
		if m.d.Again {
			id = m.d.Run()
		}
		if b.history[id] == 0 && time.Until(m.at) > time.Hour {
			stuck = append(stuck, m)
		}
	}
	return stuck
}

// fakeScheduled is a message that was read off the schedule and stays there until Ack.
type fakeScheduled struct {
	session *fakeSession
	message *fakeMessage
	seq     uint64
}

func (h *fakeScheduled) Ack(context.Context) error {
	return h.session.op("done", func() {
		if m := h.message; m.seq == h.seq && h.session.scheduled[m.d.ID] == m {
			h.session.unschedule(m)
			h.session.notify()
		}
	})
}

func (h *fakeScheduled) InProgress() error { return nil }

func (h *fakeScheduled) Nak() error { return nil }

// op is a write that reaches the bus unless the session is cut or a fault is injected. The answer of a rough bus may be late, or lost.
func (s *fakeSession) op(name string, write func()) error {
	late, err := s.try(name, write)
	pass(late)
	return err
}

func (s *fakeSession) try(name string, write func()) (late time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut {
		return 0, errCut
	}
	if err := s.faults(name); err != nil {
		return 0, err
	}
	write()
	if s.rough == nil || name == "wassent" { // that is in memory
		return 0, nil
	}
	return s.rough.late(), s.faults("answer")
}

// duplicateWindow is how long the bus drops a message with the ID of an earlier one.
const duplicateWindow = 2 * time.Minute

// repeated reports whether a message is dropped, since one with its ID was published within duplicateWindow and is still there.
func (b *fakeBus) repeated(id string, there func() bool) bool {
	if at, known := b.published[id]; known && time.Since(at) < duplicateWindow && there() {
		return true
	}
	b.published[id] = time.Now()
	return false
}

// streams reports whether the stream has a message of a delivery as it is.
func (b *fakeBus) streams(d *event.Delivery) bool {
	return slices.ContainsFunc(b.stream, func(m *fakeMessage) bool {
		return m.rescheduled && m.d.Run() == d.Run() && m.d.Reschedules == d.Reschedules
	})
}

// tooLarge reports whether the stream does not take a delivery.
func (b *fakeBus) tooLarge(d *event.Delivery) bool {
	return b.most > 0 && len(d.Event.Message) > b.most
}

func (s *fakeSession) Reschedule(_ context.Context, d *event.Delivery, at time.Time) error {
	if s.tooLarge(d) {
		return event.ErrTooLarge
	}
	err := s.op("reschedule", func() {
		s.rescheduleLog = append(s.rescheduleLog, parkedAt{*d, at})
		s.add(s.rough.stored(*d), at)
	})
	s.answer("reschedule")
	return err
}

func (s *fakeSession) DeadLetter(_ context.Context, d *event.Delivery, label, reason string) error {
	err := s.op("deadletter", func() {
		if s.repeated(d.Run()+"#dead", func() bool {
			return slices.ContainsFunc(s.dead, func(l *deadLetter) bool { return l.d.Run() == d.Run() })
		}) {
			return
		}
		s.nextSeq++
		s.dead = append(s.dead, &deadLetter{s.rough.stored(s.large.small(*d)), label, reason, time.Now(), s.nextSeq})
	})
	s.answer("deadletter")
	return err
}

func (s *fakeSession) Shards() int { return 1 }

func (s *fakeSession) DeadProviders(context.Context, int) (found map[event.ProviderKey]int, err error) {
	defer s.answer("deadproviders")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut {
		return nil, errCut
	}
	return maps.Clone(s.deadProviders()), nil
}

// deadProviders counts the dead letters by Provider. It is called every minute, so letters that were counted before are not counted
// again.
func (b *fakeBus) deadProviders() map[event.ProviderKey]int {
	c := &b.deadCounted
	if c.by == nil || c.n > len(b.dead) || c.n > 0 && b.dead[c.n-1].seq != c.last {
		*c = deadCount{by: map[event.ProviderKey]int{}}
	}
	for ; c.n < len(b.dead); c.n++ {
		l := b.dead[c.n]
		c.last = l.seq
		c.by[event.ProviderKey{Namespace: l.d.Namespace, Provider: l.d.Provider}]++
	}
	return c.by
}

func (s *fakeSession) NextDead(
	_ context.Context, namespace, provider string, since time.Time, from uint64,
) (letter *event.Dead, next uint64, err error) {
	err = s.op("deadletters", func() {
		first, _ := slices.BinarySearchFunc(s.dead, from, func(l *deadLetter, seq uint64) int { return cmp.Compare(l.seq, seq) })
		for _, l := range s.dead[first:] {
			if l.d.Namespace == namespace && l.d.Provider == provider {
				if next = l.seq + 1; !l.at.Before(since) {
					letter = &event.Dead{Delivery: s.large.read(l.d), Label: l.label, Seq: l.seq}
				}
				return
			}
		}
	})
	s.large.measure()
	s.answer("deadletters")
	return letter, next, err
}

func (s *fakeSession) Replay(_ context.Context, letter event.Dead) error {
	if s.tooLarge(&letter.Delivery) {
		return event.ErrTooLarge
	}
	s.large.measure()
	letter.Delivery = s.large.stored(letter.Delivery, letter.Seq == 0)
	err := s.op("replay", func() {
		id := fmt.Sprintf("%s#due%d", letter.Delivery.Run(), letter.Delivery.Reschedules)
		if !s.repeated(id, func() bool { return s.streams(&letter.Delivery) }) {
			s.add(s.rough.stored(letter.Delivery), time.Time{})
		}
		if s.faults("letter") != nil {
			return // the process dies before it removes the letter
		}
		s.dead = slices.DeleteFunc(s.dead, func(l *deadLetter) bool { return l.seq == letter.Seq })
	})
	s.answer("replay")
	return err
}

func (s *fakeSession) Sent(_ context.Context, d *event.Delivery) error {
	return s.op("sent", func() {
		s.sent, s.sentLog = append(s.sent, *d), append(s.sentLog, sentAt{*d, time.Now()})
		s.history[d.ID]++
		if d.Replays > 0 {
			s.history[d.Run()]++
		}
	})
}

func (s *fakeSession) WasSent(_ context.Context, d *event.Delivery) (sent bool, err error) {
	id := d.ID
	if d.Again {
		id = d.Run()
	}
	err = s.op("wassent", func() { sent = s.history[id] > 0 })
	return sent, err
}

// recalled returns how often a delivery was read off the schedule.
func (b *fakeBus) recalled() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.recalls
}
