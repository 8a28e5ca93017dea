package bus

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"notifier/internal/event"
	"notifier/internal/event/view"
)

// FuzzADeliveryIsFoundWhileItMoves looks up deliveries that are put on the schedule, become due, are sent, given up and replayed meanwhile, each
// once during a look-up at most, between any two requests of it. Fails when a delivery is not found, or in a state that it never had.
func FuzzADeliveryIsFoundWhileItMoves(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		m := newMoving(t, seed)
		ids := ids(5)
		for _, id := range ids {
			d := testDelivery(id, "team", fmt.Sprint("provider-", m.rng.IntN(2)))
			m.all = append(m.all, &d)
			m.state[&d] = ""
			m.move(&d)
		}
		for range 8 {
			m.had, m.moved = map[string]map[view.State]bool{}, map[*event.Delivery]bool{}
			for d, is := range m.state {
				m.had[d.ID] = map[view.State]bool{is: true, view.StateSent: m.sent[d]}
			}
			since := time.Time{}
			if m.rng.IntN(2) == 0 {
				since = time.Now().Add(-time.Duration(m.rng.IntN(2)) * 2 * soon)
			}
			m.active = true
			found, err := m.bus.FindDeliveries(m.ctx, "team", since, ids)
			m.active = false
			must(t, err)
			for _, id := range ids {
				if got, ok := found[id]; !ok || !m.had[id][got.State] {
					t.Errorf("%s is found: %v, as %q of %v", id, ok, got.State, m.had[id])
				}
			}
		}
	})
}

// moving has deliveries, and moves some before each request of a look-up.
type moving struct {
	t      *testing.T
	ctx    context.Context
	rng    *rand.Rand
	bus    *Bus
	all    []*event.Delivery
	state  map[*event.Delivery]view.State
	sent   map[*event.Delivery]bool // in an earlier run
	active bool
	// of the present look-up
	had   map[string]map[view.State]bool
	moved map[*event.Delivery]bool
}

// watched is a stream with a function that is called before each request.
type watched struct {
	jetstream.Stream
	before func()
}

func (w watched) CachedInfo() *jetstream.StreamInfo {
	w.before()
	return w.Stream.CachedInfo()
}

func (w watched) GetLastMsgForSubject(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	w.before()
	return w.Stream.GetLastMsgForSubject(ctx, subject)
}

func newMoving(t *testing.T, seed uint64) *moving {
	m := &moving{
		t: t, ctx: testContext(t), rng: rand.New(rand.NewPCG(seed, 0)), bus: open(t, t.TempDir(), nil), state: map[*event.Delivery]view.State{},
		sent: map[*event.Delivery]bool{},
	}
	for _, name := range []string{streamDeliveries, streamDeadLetters, streamHistory} {
		s, err := m.bus.reads.stream(m.ctx, name)
		must(t, err)
		m.bus.reads.streams[name] = watched{s.Stream, m.before}
	}
	return m
}

func (m *moving) before() {
	if d := m.all[m.rng.IntN(len(m.all))]; m.active && !m.moved[d] && m.rng.IntN(2) == 0 {
		m.moved[d] = true
		m.move(d)
		m.had[d.ID][m.state[d]] = true
	}
}

// move moves a delivery as the deliverer and the server do: its next message is stored before the former one is removed.
func (m *moving) move(d *event.Delivery) {
	b, shard := m.bus, m.bus.DeliveryShard(d.Namespace, d.Provider)
	due, retry := dueSubject(shard, d), retrySubject(shard, d)
	switch is := m.state[d]; {
	case is == view.StateDead, is == view.StateSent:
		letter := event.Dead{}
		if is == view.StateDead {
			found, _, err := b.NextDead(m.ctx, d.Namespace, d.Provider, time.Time{}, m.letter(d))
			must(m.t, err)
			letter = *found
		}
		d.Replays, d.Reschedules, d.Again = d.Replays+1, d.Reschedules+1, is == view.StateSent
		letter.Delivery = *d
		must(m.t, b.Replay(m.ctx, letter))
		m.state[d] = view.StatePending
	case m.rng.IntN(4) == 0:
		must(m.t, b.Sent(m.ctx, d))
		m.purge(due, retry)
		m.state[d], m.sent[d] = view.StateSent, true
	case m.rng.IntN(3) == 0:
		must(m.t, b.DeadLetter(m.ctx, d, "client", "refused"))
		m.purge(due, retry)
		m.state[d] = view.StateDead
	case m.rng.IntN(2) == 0: // it is tried, and is to be tried again
		d.Reschedules++
		must(m.t, b.Reschedule(m.ctx, d, time.Now().Add(time.Hour)))
		m.purge(due)
		m.state[d] = view.StatePending
	default: // its time comes
		message, err := encodeDelivery(due, "", d)
		must(m.t, err)
		must(m.t, b.publish(m.ctx, streamDeliveries, message))
		m.purge(retry)
		m.state[d] = view.StatePending
	}
}

// letter returns the sequence of a delivery's dead letter.
func (m *moving) letter(d *event.Delivery) uint64 {
	letters, err := m.bus.DeadLetters(m.ctx, d.Namespace, d.Provider, time.Time{})
	must(m.t, err)
	for _, l := range letters {
		if l.Delivery.ID == d.ID {
			return l.Seq
		}
	}
	m.t.Fatalf("%s has no letter", d.ID)
	return 0
}

func (m *moving) purge(subjects ...string) {
	for _, subject := range subjects {
		must(m.t, m.bus.streams[streamDeliveries].Purge(m.ctx, jetstream.WithPurgeSubject(subject)))
	}
}
