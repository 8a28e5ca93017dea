package bus

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"notifier/internal/bus/browse"
)

// FuzzE2NoEventInThePlaceOfALostOneCountsAsDone is E2 for a remote server that loses the end of EVENTS, and stores other events before a reader
// begins anew. Some messages are removed meanwhile, as by hand. With an even seed the end is lost once, and the clock of the server goes before
// or after that of the former one. With an odd one the end is lost again and again, and the event that was read last is removed as well. Fails
// when the place of the reader has an event as done that was never handed out, or when without a loss it has one as open that was done.
func FuzzE2NoEventInThePlaceOfALostOneCountsAsDone(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Add(uint64(751))
	f.Add(uint64(801))
	f.Add(uint64(121))
	f.Add(uint64(185))
	f.Fuzz(func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			s := newRough(t, seed)
			s.calmDown()
			e := &endless{often: seed%2 == 1, rough: s, bus: s.bus(), rng: rand.New(rand.NewPCG(seed, 1)), done: map[*roughMsg]bool{}, kept: map[*roughMsg]bool{}}
			e.bus.embedded, e.bus.sync = nil, nil
			for loss, round := e.rng.IntN(6), 0; round < 6; round++ {
				c, _, err := e.bus.openCursor(t.Context(), routeRole())
				must(t, err)
				e.check(t, c)
				e.store(e.rng.IntN(10))
				if !e.often || e.rng.IntN(2) == 0 {
					e.read(t, c)
				}
				must(t, c.save(t.Context()))
				e.remove(t)
				if e.lost = (e.often && e.rng.IntN(2) == 0 || round == loss) && len(e.log) > 0; e.lost {
					e.lose()
					e.store(e.rng.IntN(15))
					e.remove(t)
				}
			}
		})
	})
}

// endless is a server that loses its end.
type endless struct {
	often bool // loses it more than once
	*rough
	bus  *Bus
	rng  *rand.Rand
	skew time.Duration
	done map[*roughMsg]bool // handed out and acknowledged
	kept map[*roughMsg]bool // done by the present record
	lost bool               // the end, since the last check
}

func (e *endless) store(n int) {
	for range n {
		pass(time.Duration(e.rng.IntN(int([]time.Duration{time.Second, browse.MaxSkew}[e.rng.IntN(2)]))))
		m := &roughMsg{subject: prefixEvents + "team.app", header: nats.Header{}, seq: uint64(len(e.log) + 1), at: time.Now().Add(e.skew)}
		for _, before := range e.log { // a server's times do not go back
			if before != nil && !m.at.After(before.at) {
				m.at = before.at.Add(time.Duration(1 + e.rng.IntN(1000)))
			}
		}
		e.log = append(e.log, m)
	}
}

func (e *endless) lose() {
	e.log = e.log[:len(e.log)-e.rng.IntN(min(len(e.log), 10))]
	if e.often {
		return
	}
	e.skew = time.Duration(e.rng.Int64N(int64(browse.MaxSkew))) - browse.MaxSkew/2
}

// remove removes some of the last messages, but unless e.often not the one in the place of the last that was read by the record.
func (e *endless) remove(t *testing.T) {
	c, err := e.bus.loadCursor(t.Context(), routeRole())
	must(t, err)
	for n := len(e.log); n > 0 && e.rng.IntN(3) > 0; {
		if i := n - 1 - e.rng.IntN(min(n, 10)); e.often || uint64(i+1) != c.seen {
			e.log[i] = nil
		}
	}
}

// read reads some of the events, and acknowledges most of them.
func (e *endless) read(t *testing.T, c *cursor) {
	for _, m := range e.log[c.next-1:] {
		if m == nil {
			continue
		}
		if e.rng.IntN(20) == 0 {
			return
		}
		c.see(m.seq, m.at)
		if c.pass(m.seq) {
			continue
		}
		if h := c.hand(m.seq); e.rng.IntN(4) > 0 {
			must(t, h.Ack(t.Context()))
			e.done[m], e.kept[m] = true, true
		}
	}
}

func (e *endless) check(t *testing.T, c *cursor) {
	for _, m := range e.log {
		if m == nil {
			continue
		}
		_, done := c.done[m.seq]
		done = done || m.seq <= c.floor
		if done && !e.done[m] {
			t.Fatalf("%d of %d counts as done and is not", m.seq, len(e.log))
		}
		if e.kept[m] && !done && !e.lost {
			t.Fatalf("%d of %d was done", m.seq, len(e.log))
		}
		e.kept[m] = done
	}
}
